-- exact_sum(x): the sum of x, to 15 decimals. Whole numbers are added, so that it is the same to the bit in whatever
-- order threads add.
create or replace macro exact_sum(x) as (
    (sum((x * 1e15)::hugeint) // 1000000000000000)::double
    + (sum((x * 1e15)::hugeint) % 1000000000000000)::double / 1e15
);

-- exact_mean(x): the mean of x where it is not null, the same to the bit in whatever order threads add.
create or replace macro exact_mean(x) as (
    exact_sum(x) / count(x)
);

-- in_billionths(x): x as a whole number of billionths; beyond 10,000 it counts as that, so that sums of squares fit.
create or replace macro in_billionths(x) as (
    (greatest(least(x, 1e4), if(x is null, null, -1e4)) * 1e9)::hugeint
);

-- exact_sd(x): the standard deviation of the sample x, taken to 9 decimals, the same to the bit in whatever order
-- threads add; 0 only where all are equal, null where there are under two. Squares are taken about the whole part of
-- the mean, and what that leaves out is put right.
create or replace macro exact_sd(x) as (
    case
        when count(x) >= 2 then
            sqrt(greatest(0.0, (
                (
                    sum(in_billionths(x) * in_billionths(x))
                    - 2 * (sum(in_billionths(x)) // count(x)) * sum(in_billionths(x))
                    + count(x) * (sum(in_billionths(x)) // count(x)) * (sum(in_billionths(x)) // count(x))
                )::double
                - (sum(in_billionths(x)) % count(x))::double ** 2 / count(x)
            ) / (count(x) - 1))) / 1e9
    end
);

-- exact_corr(x, y): Pearson's correlation of x and y, neither null, taken to 9 decimals, the same to the bit in whatever
-- order threads add; null where one of them is constant.
create or replace macro exact_corr(x, y) as (
    (count(*) * sum((x * 1e9)::hugeint * (y * 1e9)::hugeint) - sum((x * 1e9)::hugeint) * sum((y * 1e9)::hugeint))::double
    / nullif(exact_sd(x) * exact_sd(y) * 1e18 * count(*) * (count(*) - 1), 0.0)
);
