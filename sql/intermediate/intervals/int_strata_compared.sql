-- int_strata_compared: one row per measure, scope, scope_id, model, checkpoint of a sample drawn by stratum, with
-- {unit_count, standard_error, df} of the weighted mean, by measure_strata of rubrics/statistics/strata.py: the
-- variance within strata over the sample, and that between them over the dataset.
with strata as (select * from int_clusters_varied where stratum_number is not null),

totals as (
    select
        measure, scope, scope_id, model, checkpoint,
        exact_sum(weight) as all_weight,
        exact_sum(weighted_total) / all_weight as mean,
    from strata
    group by measure, scope, scope_id, model, checkpoint
),

-- A stratum of one cluster has no variance of its own: its distance from the mean of all stands for it.
parts as (
    select
        strata.*,
        totals.all_weight,
        strata.weighted_total / strata.weight as stratum_mean,
        if(unit_count > 1, stratum_mean, totals.mean) as centre,
        if(unit_count > 1 and is_constant, 0.0, greatest(
            total_squares - 2 * centre * products + centre ** 2 * weight_squares, 0.0
        )) * coalesce(unit_count / nullif(unit_count - 1, 0), 1.0) as variance,
        strata.weight / totals.all_weight * (stratum_mean - totals.mean) ** 2 as between_variance,
    from strata
    inner join totals
        on strata.measure = totals.measure
        and strata.scope = totals.scope
        and strata.scope_id = totals.scope_id
        and strata.model = totals.model
        and strata.checkpoint is not distinct from totals.checkpoint
),

final as (
    select
        measure, scope, scope_id, model, checkpoint,
        struct_pack(
            unit_count := sum(unit_count)::bigint,
            standard_error := sqrt(
                exact_sum(variance) / any_value(all_weight) ** 2
                + exact_sum(between_variance) / any_value(dataset_case_count)
            ),
            df := greatest(1.0, least(sum(unit_count) - count(*), coalesce(
                exact_sum(variance) ** 2 / nullif(exact_sum(variance ** 2 / greatest(unit_count - 1, 1)), 0.0),
                sum(unit_count)
            )))
        ) as spread,
    from parts
    group by measure, scope, scope_id, model, checkpoint
)

select * from final
