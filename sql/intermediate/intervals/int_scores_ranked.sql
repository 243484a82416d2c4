-- int_scores_ranked: one row per scope (category or run), scope_id, model, checkpoint with a score. p05 to p95 are
-- quantiles of the outputs' scores: interpolated, or those of the weights (int_measures_weighted). Different scores
-- with the same first 4 decimals count as that rounded value.
-- materialized: table
with outputs as (
    select scores.*, weights.score_weight as weight
    from int_scores_unioned as scores
    left join int_measures_weighted as weights
        on scores.scope = weights.scope
        and scores.scope_id = weights.scope_id
        and scores.output_number = weights.output_number
    where scores.score is not null
),

-- Rounding leaves few distinct values among millions of scores; a quantile over all scores would need them in memory.
counted as (
    select
        scope, scope_id, group_number,
        round(score, 4) as near,
        if(min(score) = max(score), min(score), near) as score,
        coalesce(sum(weight), count(*)) as n,
    from outputs
    group by scope, scope_id, group_number, near
),

ordered as (
    select
        *,
        sum(n) over (partition by scope, scope_id, group_number order by near) as up_to,
        sum(n) over (partition by scope, scope_id, group_number) as total,
    from counted
),

quantiles as (
    select
        scope,
        scope_id,
        group_number,
        quantile_of(score, up_to, total, 0.05::double) as p05,
        quantile_of(score, up_to, total, 0.25::double) as p25,
        quantile_of(score, up_to, total, 0.5::double) as p50,
        quantile_of(score, up_to, total, 0.75::double) as p75,
        quantile_of(score, up_to, total, 0.95::double) as p95,
    from ordered
    group by scope, scope_id, group_number
),

final as (
    select groups.model, groups.checkpoint, quantiles.* exclude (group_number),
    from quantiles
    inner join int_groups_counted as groups on quantiles.group_number = groups.group_number
)

select * from final
