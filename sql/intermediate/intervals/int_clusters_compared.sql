-- int_clusters_compared: one row per scope, scope_id, model, checkpoint of int_values_clustered, with {unit_count,
-- standard_error, df} of the scores and of the passes. CR2 standard error over clusters: a residual sum over 1 minus
-- the cluster's share; degrees of freedom of Bell and McCaffrey (2002). Equal to Student's for clusters of one value
-- each, null below two clusters.
-- materialized: table
with found as (select * from int_values_clustered),

clusters as (
    select
        measure, scope, scope_id, model, checkpoint, cluster_number,
        count(*) as n,
        exact_sum(value) as total,
    from found
    group by measure, scope, scope_id, model, checkpoint, cluster_number
),

totals as (
    select
        measure, scope, scope_id, model, checkpoint,
        sum(n)::bigint as all_n,
        exact_sum(total) / sum(n) as mean,
    from clusters
    group by measure, scope, scope_id, model, checkpoint
),

-- slack: 1 minus the cluster's share, null for a single cluster.
weighed as (
    select
        clusters.*,
        totals.all_n,
        (clusters.total - clusters.n * totals.mean) ** 2 as square,
        clusters.n / totals.all_n as share,
        nullif(1.0 - share, 0.0) as slack,
    from clusters
    inner join totals
        on clusters.measure = totals.measure
        and clusters.scope = totals.scope
        and clusters.scope_id = totals.scope_id
        and clusters.model = totals.model
        and clusters.checkpoint is not distinct from totals.checkpoint
),

spreads as (
    select
        measure, scope, scope_id, model, checkpoint,
        struct_pack(
            unit_count := count(*),
            standard_error := sqrt(exact_sum(square / slack / all_n) / any_value(all_n)),
            df := case
                when min(n) = max(n) then count(*) - 1.0
                else least(count(*) - 1.0, greatest(1.0, 1.0 / (
                    exact_sum(share ** 2)
                    + exact_sum(share ** 2 / slack) ** 2 - exact_sum((share ** 2 / slack) ** 2)
                )))
            end
        ) as spread,
    from weighed
    group by measure, scope, scope_id, model, checkpoint
),

final as (
    select
        scope, scope_id, model, checkpoint,
        any_value(spread) filter (measure = 'score') as score_spread,
        any_value(spread) filter (measure = 'pass') as pass_spread,
    from spreads
    group by scope, scope_id, model, checkpoint
)

select * from final
