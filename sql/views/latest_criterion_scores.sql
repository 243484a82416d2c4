-- latest_criterion_scores: one row per rubric_id, model, checkpoint, criterion_id of the last published run of the
-- rubric.
with latest as (
    select rubric_id, max_by(run_id, (trigger is distinct from 'review', version)) as run_id
    from runs
    where status = 'published'
    group by rubric_id
),

final as (
    select latest.rubric_id, scores.*
    from criterion_scores as scores
    inner join latest on scores.run_id = latest.run_id
)

select * from final
