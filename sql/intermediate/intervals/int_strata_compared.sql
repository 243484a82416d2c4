-- int_strata_compared: one row per measure, scope, scope_id, model, checkpoint of a sample drawn by stratum, or with
-- unlike numbers of outputs of a case (one stratum), with {unit_count, standard_error, df, skewness} of the weighted
-- mean, by measure_strata of rubrics/statistics/strata.py: the variance within strata over the sample, and that
-- between them over the dataset.
with strata as (
    select
        *,
        sum(unit_count) filter (unit_count < 5) over means as small_count,
        min(unit_count) filter (unit_count >= 5) over means as next_count,
    from int_clusters_varied
    where stratum_number is not null
    window means as (partition by measure, scope, scope_id, model, checkpoint)
),

-- Strata of fewer than 5 clusters have their variance together; if these are fewer than 5, with the next larger ones.
-- A group of equal clusters, beside others, has the variance of half a cluster at the other end of 0..1.
groups as (
    select
        measure, scope, scope_id, model, checkpoint,
        if(unit_count < 5 or (small_count < 5 and unit_count = next_count), null, stratum_number) as own_number,
        sum(unit_count) as group_count,
        bool_and(is_constant) and max(weighted_total / weight) - min(weighted_total / weight) <= 1e-12 as is_equal,
        exact_sum(weight) as group_weight,
        exact_sum(weighted_total) / group_weight as centre,
        exact_sum(total_squares) as squares_sum, exact_sum(products) as product_sum,
        exact_sum(weight_squares) as weight_sum,
        any_value(dataset_case_count) as dataset_case_count,
    from strata
    group by all
),

totals as (
    select
        measure, scope, scope_id, model, checkpoint,
        exact_sum(weight) as all_weight,
        exact_sum(weighted_total) / all_weight as mean,
        bool_and(is_constant) and max(weighted_total / weight) - min(weighted_total / weight) <= 1e-12 as all_equal,
    from strata
    group by measure, scope, scope_id, model, checkpoint
),

parts as (
    select
        groups.*, totals.all_weight, 0.5 / (group_count + 1) as unseen,
        case
            when all_equal then 0.0
            when is_equal then group_weight ** 2 * unseen * (1 - unseen) / group_count
            else greatest(squares_sum - 2 * centre * product_sum + centre ** 2 * weight_sum, 0.0)
                * group_count / (group_count - 1)
        end as variance,
        group_weight / totals.all_weight * (centre - totals.mean) ** 2 as between_variance,
    from groups
    inner join totals
        on groups.measure = totals.measure and groups.scope = totals.scope and groups.scope_id = totals.scope_id
        and groups.model = totals.model and groups.checkpoint is not distinct from totals.checkpoint
),

final as (
    select
        parts.measure, parts.scope, parts.scope_id, parts.model, parts.checkpoint,
        struct_pack(unit_count := sum(group_count)::bigint,
            standard_error := sqrt(
                exact_sum(variance) / any_value(all_weight) ** 2
                + exact_sum(between_variance) / any_value(dataset_case_count)
            ),
            df := greatest(1.0, least(sum(group_count) - count(*), coalesce(
                exact_sum(variance) ** 2 / nullif(exact_sum(variance ** 2 / (group_count + 1)), 0.0) - 2,
                sum(group_count)
            ))),
            skewness := any_value(skewed.skewness)
        ) as spread,
    from parts
    left join int_strata_skewed as skewed
        on parts.measure = skewed.measure and parts.scope = skewed.scope and parts.scope_id = skewed.scope_id
        and parts.model = skewed.model and skewed.checkpoint is not distinct from parts.checkpoint
    group by parts.measure, parts.scope, parts.scope_id, parts.model, parts.checkpoint
)

select * from final
