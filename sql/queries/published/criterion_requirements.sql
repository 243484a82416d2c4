-- criterion_requirements: one row per model, checkpoint, criterion_id of the rubric of the run $run_id, in order: the
-- mean and the threshold, 0..1, that it is checked against. is_optional: it does
-- not apply to the outputs without a score.
with optional as (from {published/optional_criteria}),

final as (
    select
        scores.model,
        scores.checkpoint,
        scores.criterion_id,
        scores.n,
        scores.output_count,
        scores.mean,
        criteria.is_gate,
        criteria.threshold,
        criteria.criterion_id in (select criterion_id from optional) as is_optional,
    from criterion_scores as scores
    inner join runs on scores.run_id = runs.run_id
    inner join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
    where scores.run_id = $run_id
    order by scores.model, scores.checkpoint, scores.criterion_id
)

select * from final
