-- latest_output_scores: one row per rubric_id, output_id of the last published run of the rubric. A review counts
-- only where the rubric has no other run.
with latest as (
    select rubric_id, max_by(run_id, (trigger is distinct from 'review', version)) as run_id
    from runs
    where status = 'published'
    group by rubric_id
),

final as (
    select
        latest.rubric_id,
        scores.case_id,
        scores.model,
        scores.checkpoint,
        scores.score,
        scores.is_passed,
        scores.failed_gates,
        scores.* exclude (
            case_id, model, checkpoint, score, is_passed, failed_gates, output_id, run_id
        ),
        scores.output_id,
        scores.run_id,
    from output_scores as scores
    inner join latest on scores.run_id = latest.run_id
)

select * from final
