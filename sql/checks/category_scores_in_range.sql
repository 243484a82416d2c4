-- Rates of category_scores are in 0..1, the ends of its intervals and its quantiles in order and not above 1.
-- severity: error
-- empty without: category_scores
with mart as (select * from category_scores),

final as (
    select
        model,
        checkpoint,
        category,
        ci_low,
        ci_high,
        p05,
        p95,
        pass_low,
        pass_high,
        pass_rate,
        coverage_rate,
    from mart
    where not (
        coalesce(ci_low, 0.0) <= coalesce(ci_high, 1.0)
        and coalesce(p05 <= p95 + 1e-9 and p95 <= 1 + 1e-9, n = 0)
        and coalesce(ci_high, 1.0) <= 1
        and coalesce(pass_low, 0.0) between 0 and 1
        and coalesce(pass_high, 0.0) between 0 and 1
        and coalesce(pass_rate, 0.0) between 0 and 1
        and coalesce(coverage_rate, 0.0) between 0 and 1
    )
)

select * from final
