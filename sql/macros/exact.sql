-- exact_sum(x): the sum of x, to 15 decimals. Whole numbers are added, so that it is the same to the bit in whatever
-- order threads add.
create or replace macro exact_sum(x) as (
    sum((x * 1e15)::hugeint)::double / 1e15
);

-- exact_mean(x): the mean of x where it is not null, the same to the bit in whatever order threads add.
create or replace macro exact_mean(x) as (
    exact_sum(x) / count(x)
);

-- exact_sd(x): the standard deviation of the sample x, taken to 9 decimals, the same to the bit in whatever order
-- threads add; 0 only where all are equal, null where there are under two.
create or replace macro exact_sd(x) as (
    case
        when count(x) >= 2 then
            sqrt(
                (count(x) * sum((x * 1e9)::hugeint * (x * 1e9)::hugeint)
                - sum((x * 1e9)::hugeint) * sum((x * 1e9)::hugeint))::double / count(x) / (count(x) - 1)
            ) / 1e9
    end
)
;

-- exact_corr(x, y): Pearson's correlation of x and y, neither null, taken to 9 decimals, the same to the bit in whatever
-- order threads add; null where one of them is constant.
create or replace macro exact_corr(x, y) as (
    (count(*) * sum((x * 1e9)::hugeint * (y * 1e9)::hugeint) - sum((x * 1e9)::hugeint) * sum((y * 1e9)::hugeint))::double
    / nullif(exact_sd(x) * exact_sd(y) * 1e18 * count(*) * (count(*) - 1), 0.0)
);
