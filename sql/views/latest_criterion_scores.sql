-- latest_criterion_scores: one row per rubric_id, model, checkpoint, criterion_id of the last published run of the
-- rubric.
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
        scores.criterion_id,
        scores.mean,
        scores.ci_low,
        scores.ci_high,
        scores.pass_rate,
        scores.weight,
        scores.n,
        scores.* exclude (
            model, checkpoint, criterion_id, mean, ci_low, ci_high, pass_rate, weight, n, run_id
        ),
        scores.run_id,
    from criterion_scores as scores
    inner join latest on scores.run_id = latest.run_id
)

select * from final
