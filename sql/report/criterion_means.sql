-- criterion_means: one row per run, model, checkpoint and criterion of the rubric, for several runs, with the digest of
-- the criterion's text. $1: the run ids.
with scores as (select * from criterion_scores where list_contains($1, run_id)),

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
