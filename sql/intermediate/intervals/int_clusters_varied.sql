-- int_clusters_varied: one row per measure, scope, scope_id, model, checkpoint of int_clusters_summed, and in a sample
-- drawn by stratum per stratum_number, with the variation between its unit_count clusters. between, within: mean
-- squares; usual_size, spread_size: cluster sizes, weighted by outputs and of the analysis of variance. weight to
-- weight_squares: sums over a stratum's clusters of their weights and weighted totals, for int_strata_compared.
-- materialized: table
with final as (
    select
        measure, scope, scope_id, model, checkpoint, stratum_number,
        any_value(all_n) as all_n,
        any_value(squares) as squares,
        count(*) as unit_count,
        exact_sum(square / n) / nullif(unit_count - 1, 0) as between,
        greatest(any_value(squares) - exact_sum(square / n), 0.0) / nullif(any_value(all_n) - unit_count, 0) as within,
        case
            when count(cube) = count(*)
                then exact_sum(cube) * sqrt(count(*)) / nullif(exact_sum(square), 0.0) ** 1.5
        end as skewness,
        exact_sum(share ** 2) * any_value(all_n) as usual_size,
        (any_value(all_n) - usual_size) / nullif(unit_count - 1, 0) as spread_size,
        exact_sum(square / slack / all_n) / any_value(all_n) as robust_variance,
        case
            when min(n) = max(n) then count(*) - 1.0
            else least(count(*) - 1.0, greatest(1.0, 1.0 / (
                exact_sum(share ** 2)
                + exact_sum(share ** 2 / slack) ** 2 - exact_sum((share ** 2 / slack) ** 2)
            )))
        end as df,
        min(lowest) = max(highest) as is_constant,
        exact_sum(weight) as weight,
        exact_sum(weighted_total) as weighted_total,
        exact_sum(weighted_total ** 2) as total_squares,
        exact_sum(weighted_total * weight) as products,
        exact_sum(weight ** 2) as weight_squares,
        any_value(dataset_case_count) as dataset_case_count,
    from int_clusters_summed
    group by measure, scope, scope_id, model, checkpoint, stratum_number
)

select * from final
