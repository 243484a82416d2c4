-- int_means_estimated: one row per scope, scope_id, model, checkpoint of int_scores_averaged, with quantiles and the
-- intervals (interval_of) on mean, pass_rate and gate_failure_rate. Means of scores that can be below 0, through
-- negative weights, are measured from the lowest possible score. An interval is null below two values or clusters.
-- materialized: table
with means as (select * from int_scores_averaged),

spreads as (select * from int_clusters_compared),

quantiles as (select * from int_scores_ranked),

-- Slices are chosen because their means are low; their intervals have the level that allows for the choice.
tests as (select * from int_slices_tested),

measured as (
    select
        means.*,
        quantiles.* exclude (scope, scope_id, model, checkpoint),
        coalesce(score_spread.unit_count, n) as cluster_count,
        1.0 - least_score as width,
        -- Floats can place a mean of equal scores beside the bound that they all have.
        interval_of(
            n,
            clip((mean - least_score) / width),
            sd / width,
            skewness,
            struct_pack(
                unit_count := score_spread.unit_count,
                standard_error := score_spread.standard_error / width,
                df := score_spread.df,
                skewness := score_spread.skewness
            ),
            coalesce(tests.level, 0.95)
        ) as score_ends,
        interval_of(pass_count, pass_rate, rate_sd(pass_rate, pass_count), null, pass_spread, 0.95) as pass_ends,
        interval_of(
            gate_count, gate_failure_rate, rate_sd(gate_failure_rate, gate_count), null, gate_spread, 0.95
        ) as gate_ends,
    from means
    left join spreads
        on means.scope = spreads.scope
        and means.scope_id = spreads.scope_id
        and means.model = spreads.model
        and means.checkpoint is not distinct from spreads.checkpoint
    left join quantiles
        on means.scope = quantiles.scope
        and means.scope_id = quantiles.scope_id
        and means.model = quantiles.model
        and means.checkpoint is not distinct from quantiles.checkpoint
    left join tests on means.scope = 'slice' and means.scope_id = tests.scope_id
),

final as (
    select
        * exclude (width, skewness, score_ends, pass_ends, gate_ends),
        least_score + width * score_ends.low as ci_low,
        least_score + width * score_ends.high as ci_high,
        pass_ends.low as pass_low,
        pass_ends.high as pass_high,
        gate_ends.low as gate_failure_low,
        gate_ends.high as gate_failure_high,
    from measured
)

select * from final
