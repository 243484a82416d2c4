-- criterion_means: one row per run_id, model, checkpoint, criterion_id of the rubric's criteria in the runs $run_ids:
-- the mean, 0..1, with the digest of the text that it was scored by.
with scores as (select * from criterion_scores where list_contains($run_ids, run_id)),

final as (
    select
        scores.run_id, scores.model, scores.checkpoint, scores.criterion_id, scores.mean,
        criteria.digest, criteria.method,
    from scores
    inner join runs on scores.run_id = runs.run_id
    inner join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and scores.criterion_id = criteria.criterion_id
)

select * from final
