-- int_clusters_compared: one row per scope, scope_id, model, checkpoint of int_values_clustered, with {unit_count,
-- standard_error, df, skewness} of the scores, the passes, the failed gates and the pass@k and pass^k of cases. In a
-- sample drawn by stratum they are those of int_strata_compared. Else as measure_scores of
-- rubrics/statistics/means.py: the larger of the CR2 standard error (a residual sum over 1 minus the
-- cluster's share) and that of equally correlated values in each cluster; degrees of freedom of Bell and McCaffrey
-- (2002).
-- empty without: int_outputs_clustered
-- materialized: table
with varied as (select * from int_clusters_varied where stratum_number is null),

spreads as (
    select
        measure, scope, scope_id, model, checkpoint,
        coalesce(clip((between - within) / nullif(between + (spread_size - 1) * within, 0.0)), 0.0) as correlation,
        struct_pack(
            unit_count := unit_count,
            standard_error := sqrt(greatest(
                robust_variance, squares / (all_n - 1) * (1 + (usual_size - 1) * correlation) / all_n
            )),
            df := df,
            skewness := skewness
        ) as spread,
    from varied
    union all by name
    select * from int_strata_compared
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
