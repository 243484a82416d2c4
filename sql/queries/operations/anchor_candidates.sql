-- anchor_candidates: one row per output_id, criterion_id of the run $run_id that the judge scored, of the criteria
-- $criteria of its rubric. score is 0..1. people_score: mean of people's latest ratings (0..1), or the adjudicator's
-- decision alone; null without one.
with given as (
    from asked_ratings
    where score is not null and rater is not null
    qualify source = 'adjudication' or not bool_or(source = 'adjudication') over (partition by output_id, criterion_id)
),

latest as (
    from given
    qualify row_number() over (
        partition by output_id, criterion_id, rater order by rated_at desc nulls last
    ) = 1
),

rated as (
    select output_id, criterion_id, avg(score) as people_score, count(*) as people_count
    from latest
    group by output_id, criterion_id
),

final as (
    select
        verdicts.output_id,
        verdicts.criterion_id as criterion,
        coalesce(verdicts.level_id, '') as level,
        outputs.model,
        coalesce(outputs.checkpoint, '') as checkpoint,
        verdicts.score,
        rated.people_score,
        coalesce(rated.people_count, 0) as people_count,
    from verdicts
    inner join outputs on verdicts.output_id = outputs.output_id
    left join rated on verdicts.output_id = rated.output_id and verdicts.criterion_id = rated.criterion_id
    where
        verdicts.run_id = $run_id
        and verdicts.method = 'judge'
        and verdicts.status = 'scored'
        and list_contains($criteria, verdicts.criterion_id)
        and (verdicts.run_id, verdicts.output_id, verdicts.criterion_id) not in (
            select (run_id, output_id, criterion_id) from case_criteria
        )
    order by all
)

select * from final
