-- int_slices_tested: one row per slice_number, criterion_id of int_slices_compared where not all scores are equal. p is
-- one-sided, p_adjusted controls the false discovery rate over the searched_count rows of the run (Benjamini and
-- Hochberg 1995), so at most 5% of the discoveries, those up to 0.05, are due to chance on average. shrunk_shortfall is
-- an empirical Bayes estimate of two groups, discoveries and others: true shortfalls of a group vary about 0 with a
-- variance estimated from its rows (DerSimonian and Laird 1986). level is that of intervals on the discoveries: with
-- it, at most 5% of them miss on average (Benjamini and Yekutieli 2005).
-- empty without: int_outputs_sliced
-- materialized: table
with slices as (select * from int_slices_compared where all_sd > 0),

measured as (
    select
        slices.scope_id,
        slices.shortfall,
        shortfall_test(
            slices.n, slices.rest_n, slices.shortfall, slices.all_sd, slices.all_skewness,
            greatest(1.0, coalesce(
                spreads.score_spread.standard_error ** 2 / (slices.all_sd ** 2 / slices.all_n), 1.0
            ))
        ) as test,
    from slices
    left join int_clusters_compared as spreads
        on spreads.scope = 'criterion'
        and slices.criterion_id = spreads.scope_id
        and slices.model = spreads.model
        and spreads.checkpoint is not distinct from slices.checkpoint
),

placed as (
    select
        *,
        count(*) over () as searched_count,
        row_number() over (order by test.p, scope_id) as place,
    from measured
),

adjusted as (
    select
        *,
        least(1.0, min(test.p * searched_count / place) over (
            order by place desc rows between unbounded preceding and current row
        )) as p_adjusted,
        p_adjusted <= 0.05 as is_found,
    from placed
),

groups as (
    select
        is_found,
        count(*) as n,
        greatest(
            0.0,
            exact_sum((shortfall / test.standard_error) ** 2 - 1) / exact_sum(1 / test.standard_error ** 2)
        ) as variance,
    from adjusted
    group by is_found
),

final as (
    select
        scope_id,
        test.p as p,
        p_adjusted,
        searched_count,
        shortfall * groups.variance / (groups.variance + test.standard_error ** 2) as shrunk_shortfall,
        1 - 0.05 * greatest(coalesce((select n from groups where is_found), 0), 1) / searched_count as level,
    from adjusted
    inner join groups on adjusted.is_found = groups.is_found
)

select * from final
