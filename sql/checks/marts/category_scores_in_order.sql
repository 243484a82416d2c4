-- The ends of the intervals of category_scores are in order, and so are its quantiles, which are not above 1.
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
    from mart
    where not (
        coalesce(ci_low, 0.0) <= coalesce(ci_high, 1.0)
        and coalesce(p05 <= p95 + 1e-9 and p95 <= 1 + 1e-9, n = 0)
    )
)

select * from final
