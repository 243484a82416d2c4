-- rate_sd(rate, n): standard deviation of a sample of n values of 0 or 1 with this mean; null where n is under 2.
create or replace temp macro rate_sd(rate, n) as (
    sqrt(rate * (1 - rate) * n / nullif(n - 1, 0))
);

-- interval_of(n, mean, sd, skewness, spread, level): {low, high} of the interval on a mean of scores or passes in 0..1,
-- by score_ends of rubrics/statistics/means.py. skewness: null for passes, or if unknown. spread is the
-- variation between clusters (int_clusters_compared; null: none). Both ends are null below two values or clusters.
create or replace temp macro interval_of(n, mean, sd, skewness, spread, level) as (
    score_ends(
        n,
        coalesce(spread.unit_count, n),
        mean,
        sd,
        coalesce(spread.standard_error, sd / sqrt(nullif(n, 0))),
        coalesce(spread.df, n - 1.0),
        if(spread.unit_count is null, skewness, spread.skewness),
        level
    )
);
