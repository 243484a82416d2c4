-- step_marks_of_run: one row per criterion_id, output_id, step_index, side (judge, vote or rater), who: the worst label
-- that the run's judge, one of several votes behind it, or a rater gave to a step of an output of the run $run_id, with
-- the type of its error; of all criteria if $criterion_id is null. Of a rater's marks of a step the latest count.
-- shared: the cluster or case.
with chosen as (
    select output_scores.output_id, coalesce('cluster ' || cluster, 'case ' || case_id) as shared
    from output_scores
    where run_id = $run_id
),

latest as (
    from step_ratings
    where output_id in (select output_id from chosen) and step_index is not null
    qualify rank() over (
        partition by output_id, criterion_id, rater, step_index order by rated_at desc nulls last
    ) = 1
),

marks as (
    select criterion_id, output_id, step_index, 'rater' as side, rater as who, score, error_type
    from latest
    where score is not null
    union all
    select criterion_id, output_id, step_index, 'judge' as side, 'judge' as who, score, error_type
    from step_verdicts
    where run_id = $run_id
    union all
    select
        criterion_id,
        output_id,
        step_index,
        'vote' as side,
        concat(judge, ', vote ' || nullif(replicate + 1, 1)) as who,
        score,
        error_type,
    from step_opinions
    where run_id = $run_id and score is not null
),

final as (
    select
        marks.criterion_id,
        marks.output_id,
        marks.step_index,
        marks.side,
        marks.who,
        min(marks.score) as score,
        arg_min(marks.error_type, marks.score) as error_type,
        any_value(chosen.shared) as shared,
    from marks
    inner join chosen on marks.output_id = chosen.output_id
    where $criterion_id is null or marks.criterion_id = $criterion_id
    group by marks.criterion_id, marks.output_id, marks.step_index, marks.side, marks.who
    order by marks.criterion_id, marks.output_id, marks.step_index, marks.side, marks.who
)

select * from final
