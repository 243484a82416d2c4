-- shown_criteria: one row per criterion_id, model, checkpoint of the run $run_id, in the rubric's order: the rubric's
-- criteria, and the 30 per-case criteria that the most outputs brought along. Scores are 0..1.
with most_used as (
    select criterion_id
    from case_criteria
    where run_id = $run_id
    group by criterion_id
    order by count(*) desc, criterion_id
    limit 30
),

final as (
    select scores.* exclude (run_id)
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    left join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
    where
        scores.run_id = $run_id
        and (criteria.criterion_id is not null or scores.criterion_id in (select criterion_id from most_used))
    order by criteria.criterion_id is null, criteria.position, scores.criterion_id, scores.model, scores.checkpoint
)

select * from final
