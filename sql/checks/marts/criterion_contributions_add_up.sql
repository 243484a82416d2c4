-- Contributions in criterion_scores add up to the mean in run_scores, clipped to 0..1, where every verdict is scored.
-- severity: error
with parts as (select * from criterion_scores),

runs as (select * from run_scores),

scores as (select * from output_scores),

sums as (
    select
        model,
        checkpoint,
        sum(contribution) as contribution,
    from parts
    where weight <> 0
    group by model, checkpoint
),

complete as (
    select
        model,
        checkpoint,
    from scores
    group by model, checkpoint
    having sum(unscored_count) = 0
),

final as (
    select
        runs.model,
        runs.checkpoint,
        runs.mean,
        sums.contribution,
    from runs
    inner join sums
        on runs.model = sums.model
        and runs.checkpoint is not distinct from sums.checkpoint
    semi join complete
        on runs.model = complete.model
        and runs.checkpoint is not distinct from complete.checkpoint
    where abs(clip(sums.contribution) - runs.mean) > 1e-9
)

select * from final
