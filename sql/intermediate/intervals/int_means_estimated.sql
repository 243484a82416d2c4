-- int_means_estimated: one row per scope, scope_id, model, checkpoint of int_scores_averaged, with quantiles and the
-- 95% intervals on mean and pass_rate, in 0..1, null below two values or clusters. Wilson's interval where all values
-- are 0 or 1; the rule of three where all are equal (Hanley and Lippman-Hand 1983); else t, cluster-robust where
-- int_clusters_compared has a row.
-- materialized: table
with means as (select * from int_scores_averaged),

spreads as (select * from int_clusters_compared),

points as (select * from stg_points_intervals),

quantiles as (select * from int_scores_ranked),

weighed as (
    select
        means.*,
        quantiles.* exclude (scope, scope_id, model, checkpoint),
        points.ci_low as drawn_low,
        points.ci_high as drawn_high,
        coalesce(score_spread.unit_count, n) as unit_count,
        coalesce(score_spread.standard_error, sd / sqrt(n)) as standard_error,
        student_t_975(coalesce(score_spread.df, n - 1)) as quantile,
        cluster_worth(mean, n, score_spread) as worth,
        cluster_worth(pass_rate, pass_count, pass_spread) as pass_worth,
    from means
    left join spreads
        on means.scope = spreads.scope
        and means.scope_id = spreads.scope_id
        and means.model = spreads.model
        and means.checkpoint is not distinct from spreads.checkpoint
    left join points
        on means.scope = points.scope
        and means.scope_id = points.scope_id
        and means.model = points.model
        and means.checkpoint is not distinct from points.checkpoint
    left join quantiles
        on means.scope = quantiles.scope
        and means.scope_id = quantiles.scope_id
        and means.model = quantiles.model
        and means.checkpoint is not distinct from quantiles.checkpoint
),

final as (
    select
        * exclude (drawn_low, drawn_high, unit_count, standard_error, quantile, worth, pass_worth),
        unit_count as cluster_count,
        case
            when unit_count < 2 then null
            when drawn_low is not null then drawn_low
            when is_rate then wilson_end(mean, worth, -1)
            when standard_error <= 1e-12 then clip(mean) * 0.05 ** (1.0 / unit_count)
            else clip(mean - quantile * standard_error)
        end as ci_low,
        case
            when unit_count < 2 then null
            when drawn_high is not null then drawn_high
            when is_rate then wilson_end(mean, worth, 1)
            when standard_error <= 1e-12 then 1.0 - (1.0 - clip(mean)) * 0.05 ** (1.0 / unit_count)
            else clip(mean + quantile * standard_error)
        end as ci_high,
        wilson_end(pass_rate, pass_worth, -1) as pass_low,
        wilson_end(pass_rate, pass_worth, 1) as pass_high,
    from weighed
)

select * from final
