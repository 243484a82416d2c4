-- Statistics of agreement over two outputs and more are numbers with their ends in order, or null with a reason.
-- severity: warning
-- empty without: agreement
with measured as (select * from agreement),

final as (
    select *
    from measured
    where
        (n < 2 and value is not null)
        or (pair_count < n and statistic <> 'percent_agreement_with_gaps')
        or (coalesce(value, ci_low, ci_high) is null and coalesce(reason, '') = '')
        or not coalesce(isfinite(value) and isfinite(coalesce(ci_low, 0)) and isfinite(coalesce(ci_high, 0)), true)
        or (ci_low is null) <> (ci_high is null)
        or ci_low > ci_high
        or (statistic in ('percent_agreement', 'rmse') and value not between 0 and 1 + 1e-9)
        or (statistic not in ('rmse', 'bias', 'spread', 'alpha_over_people') and value > 1 + 1e-9)
)

select * from final
