-- int_clusters_compared: one row per scope, scope_id, model, checkpoint of int_values_clustered, with {unit_count,
-- standard_error, df} of the scores, the passes, the failed gates and the pass@k and pass^k of cases, as
-- measure_scores of rubrics/statistics/score_intervals.py: the larger of the CR2 standard error (a residual sum over 1
-- minus the cluster's share) and that of equally correlated values in each cluster; degrees of freedom of Bell and
-- McCaffrey (2002).
-- materialized: table
with weighed as (select * from int_clusters_summed),

-- between, within: mean squares; usual_size, spread_size: cluster sizes, weighted by outputs and of the analysis of
-- variance.
varied as (
    select
        measure, scope, scope_id, model, checkpoint,
        any_value(all_n) as all_n,
        any_value(squares) as squares,
        count(*) as unit_count,
        exact_sum(square / n) / nullif(unit_count - 1, 0) as between,
        greatest(any_value(squares) - exact_sum(square / n), 0.0) / nullif(any_value(all_n) - unit_count, 0) as within,
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
    from weighed
    group by measure, scope, scope_id, model, checkpoint
),

spreads as (
    select
        measure, scope, scope_id, model, checkpoint,
        coalesce(clip((between - within) / nullif(between + (spread_size - 1) * within, 0.0)), 0.0) as correlation,
        struct_pack(
            unit_count := unit_count,
            standard_error := sqrt(greatest(
                robust_variance, squares / (all_n - 1) * (1 + (usual_size - 1) * correlation) / all_n
            )),
            df := df
        ) as spread,
    from varied
),

final as (
    select
        scope, scope_id, model, checkpoint,
        any_value(spread) filter (measure = 'score') as score_spread,
        any_value(spread) filter (measure = 'pass') as pass_spread,
        any_value(spread) filter (measure = 'gate') as gate_spread,
        any_value(spread) filter (measure = 'pass_at_k') as at_spread,
        any_value(spread) filter (measure = 'pass_hat_k') as hat_spread,
    from spreads
    group by scope, scope_id, model, checkpoint
)

select * from final
