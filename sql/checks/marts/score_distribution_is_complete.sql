-- The distribution of a group ends at 1 and counts the scored outputs of run_scores.
-- severity: error
with distribution as (select * from score_distribution),

runs as (select * from run_scores),

totals as (
    select
        model,
        checkpoint,
        sum(n) as n,
        max(share) as last_share,
    from distribution
    group by model, checkpoint
),

final as (
    select
        runs.model,
        runs.checkpoint,
        runs.n as scored_count,
        totals.n as distribution_count,
        totals.last_share,
    from runs
    left join totals
        on runs.model = totals.model
        and runs.checkpoint is not distinct from totals.checkpoint
    where runs.n <> coalesce(totals.n, 0) or abs(totals.last_share - 1) > 1e-9
)

select * from final
