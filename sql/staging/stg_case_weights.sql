-- stg_case_weights: one row per case_id of a sample drawn by stratum: its stratum, its inclusion_rate (over 0, up to
-- 1), and its weight, 1e9 on average: whole numbers, so that weighted sums are the same in any order.
-- dataset_case_count is that of the dataset. Empty for all other runs.
with cases as (select * from source_case_weights),

drawn as (
    select exact_mean(1.0 / inclusion_rate) as mean_weight, count(*) as case_count
    from cases
),

final as (
    select
        cases.case_id,
        cases.stratum,
        cases.inclusion_rate,
        round(1e9 / cases.inclusion_rate / drawn.mean_weight)::bigint as weight,
        drawn.mean_weight * drawn.case_count as dataset_case_count,
    from cases
    cross join drawn
)

select * from final
