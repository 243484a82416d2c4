-- latest_run_scores: one row per rubric_id, model, checkpoint of the last published run of the rubric. A review counts
-- only where the rubric has no other run.
with latest as (
    select rubric_id, max_by(run_id, (trigger is distinct from 'review', version)) as run_id
    from runs
    where status = 'published'
    group by rubric_id
),

final as (
    select latest.rubric_id, scores.*
    from run_scores as scores
    inner join latest on scores.run_id = latest.run_id
)

select * from final
