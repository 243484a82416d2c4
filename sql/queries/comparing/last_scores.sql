-- last_scores: one row per model and case, or cluster of cases, of the last published run of a suite or rubric: the
-- mean of its overall scores, 0..1. $suite: name of the suite, or null; $rubric_id: the rubric, or null.
with last_run as (
    select run_id
    from runs
    where
        status = 'published'
        and stopped_at is null
        and ($suite is null or (settings::json ->> 'suite') = $suite)
        and ($rubric_id is null or rubric_id = $rubric_id)
    order by version desc
    limit 1
),

final as (
    select
        scores.run_id,
        scores.model,
        avg(scores.score) as score,
    from last_run
    inner join output_scores as scores on last_run.run_id = scores.run_id
    where scores.score is not null
    group by scores.run_id, scores.model, coalesce(scores.cluster, scores.case_id)
    order by scores.model, coalesce(scores.cluster, scores.case_id)
)

select * from final
