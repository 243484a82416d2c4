-- int_clusters_summed: one row per measure, scope, scope_id, model, checkpoint, cluster_number of int_values_clustered,
-- with the n values of the cluster. square, cube: of the sum of their residuals. slack: 1 minus its share of the
-- all_n values, null for a single cluster. squares: sum of squares of all residuals. weight: of the values in a sample
-- drawn by stratum, else null; weighted_total: the sum of weight times value.
with found as (select * from int_values_clustered),

clusters as (
    select
        measure, scope, scope_id, model, checkpoint, cluster_number,
        count(*) as n,
        exact_sum(value) as total,
        exact_sum(value ** 2) as square_total,
        min(value) as lowest,
        max(value) as highest,
        any_value(stratum_number) as stratum_number,
        any_value(dataset_case_count) as dataset_case_count,
        sum(weight) / 1e9 as weight,
        exact_sum(weight / 1e9 * value) as weighted_total,
    from found
    group by measure, scope, scope_id, model, checkpoint, cluster_number
),

totals as (
    select
        measure, scope, scope_id, model, checkpoint,
        sum(n)::bigint as all_n,
        exact_sum(total) / sum(n) as mean,
        -- Equal values have no variance, whatever the rounding of their sums.
        case
            when min(lowest) < max(highest) then greatest(exact_sum(square_total) - all_n * mean ** 2, 0.0)
            else 0.0
        end as squares,
    from clusters
    group by measure, scope, scope_id, model, checkpoint
),

final as (
    select
        clusters.*,
        totals.all_n,
        totals.squares,
        (clusters.total - clusters.n * totals.mean) ** 2 as square,
        if(square <= 1e8, (clusters.total - clusters.n * totals.mean) ** 3, null) as cube,  -- larger ones would not fit
        clusters.n / totals.all_n as share,
        nullif(1.0 - share, 0.0) as slack,
    from clusters
    inner join totals
        on clusters.measure = totals.measure
        and clusters.scope = totals.scope
        and clusters.scope_id = totals.scope_id
        and clusters.model = totals.model
        and clusters.checkpoint is not distinct from totals.checkpoint
)

select * from final
