-- latest_run_scores: one row per rubric_id, model, checkpoint of the last published run of the rubric. A review counts
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
        scores.model,
        scores.checkpoint,
        scores.mean,
        scores.ci_low,
        scores.ci_high,
        scores.pass_rate,
        scores.gate_failure_rate,
        scores.n,
        scores.output_count,
        scores.* exclude (
            model, checkpoint, mean, ci_low, ci_high, pass_rate, gate_failure_rate, n, output_count,
            run_id
        ),
        scores.run_id,
    from run_scores as scores
    inner join latest on scores.run_id = latest.run_id
)

select * from final
