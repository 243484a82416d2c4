-- step_marks_of_run: one row per criterion_id, output_id, step_index, side, who: the worst label that was given to a
-- step of an output of the run $run_id, with the type of its error: by the run's judge (side judge), by one of several
-- votes behind that (vote), by a rater (rater: the latest) or by a lead (settled: the score is null where the criterion
-- does not apply). Of all criteria if $criterion_id is null. shared: the cluster or case.
with chosen as (
    select output_scores.output_id, coalesce('cluster ' || cluster, 'case ' || case_id) as shared
    from output_scores
    where run_id = $run_id
),

marks as (
    select criterion_id, output_id, step_index, 'rater' as side, rater as who, score, error_type
    from {ratings/current_step_ratings}
    where score is not null
    union all
    select criterion_id, output_id, step_index, 'settled' as side, adjudicator as who, score, error_type
    from {ratings/settled_steps}
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
