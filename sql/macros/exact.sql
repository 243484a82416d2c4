-- exact_sum(x): the sum of x, to 15 decimals. It adds whole numbers, so the sum is the same to the bit in any
-- order of the threads.
create or replace temp macro exact_sum(x) as (
    sum((x * 1e15)::hugeint)::double / 1e15
);

-- exact_unit_sum(x): exact_sum of values in -1..1, in half the time.
create or replace temp macro exact_unit_sum(x) as (
    sum((x * 1e15)::bigint)::double / 1e15
);

-- share_of_sum(total, n): total divided by n * 1e15; total is a sum of x * 1e15. The mean of any number of equal x is
-- x.
create or replace temp macro share_of_sum(total, n) as (
    ((total // n)::double + (total % n)::double / n) / 1e15
);

-- exact_mean(x): the mean of the x that are not null, the same to the bit in any order of the threads.
create or replace temp macro exact_mean(x) as (
    share_of_sum(sum((x * 1e15)::hugeint), nullif(count(x), 0))
);

-- mean_of_counted(x, n): the exact_mean of a sample in which each x that is not null occurs n times, or has the whole
-- number n as its weight.
create or replace temp macro mean_of_counted(x, n) as (
    share_of_sum(sum((x * 1e15)::hugeint * n), sum(n) filter (x is not null))
);

-- in_billionths(x): x as a whole number of billionths; limited to 10,000, so that sums of squares fit.
create or replace temp macro in_billionths(x) as (
    (case when x > 1e4 then 1e4 when x < -1e4 then -1e4 else x end * 1e9)::bigint::hugeint
);

-- sd_of_sums(n, weight, total, square_total): the standard deviation of a sample of n whole numbers of billionths, of
-- this summed weight (n where each counts as one); 0 only where all are equal, null where there are under two. Squares
-- are taken about the whole part of the mean, with a correction for the remainder.
create or replace temp macro sd_of_sums(n, weight, total, square_total) as (
    case
        when n >= 2 then
            sqrt(greatest(0.0, (
                (square_total - 2 * (total // weight) * total + weight * (total // weight) * (total // weight))::double
                - (total % weight)::double ** 2 / weight
            ) / (weight * (n - 1) / n))) / 1e9
    end
);

-- exact_sd(x): the standard deviation of the sample x, to 9 decimals, the same to the bit in any order of the
-- threads; null where there are under two.
create or replace temp macro exact_sd(x) as (
    sd_of_sums(count(x), count(x), sum(in_billionths(x)), sum(in_billionths(x) * in_billionths(x)))
);

-- sd_of_counted(x, n, weight): the exact_sd of a sample in which each x that is not null occurs n times, with this
-- summed weight.
create or replace temp macro sd_of_counted(x, n, weight) as (
    sd_of_sums(
        sum(n) filter (x is not null),
        sum(weight) filter (x is not null),
        sum(in_billionths(x) * weight),
        sum(in_billionths(x) * in_billionths(x) * weight)
    )
);

-- cubes_of(x, n): the exact_sum of n times the cube of x; null where an x is beyond 100, whose cube would not fit.
create or replace temp macro cubes_of(x, n) as (
    case when max(abs(x)) <= 100 then exact_sum(case when abs(x) <= 100 then n * x ** 3 end) end
);

-- skewness_of(n, mean, sd, cubes): the skewness of a sample with this exact_mean, exact_sd and cubes_of its values; null
-- where these hardly differ, as rounding would decide it.
create or replace temp macro skewness_of(n, mean, sd, cubes) as (
    case
        when sd > 1e-3 then
            (cubes / n - mean * (3 * sd ** 2 * (n - 1) / n + mean ** 2)) / (sd ** 2 * (n - 1) / n) ** 1.5
    end
);

-- exact_corr(x, y): Pearson's correlation of x and y, neither null, to 9 decimals, the same to the bit in any order of
-- the threads; null where one of them is constant.
create or replace temp macro exact_corr(x, y) as (
    (count(*) * sum((x * 1e9)::hugeint * (y * 1e9)::hugeint) - sum((x * 1e9)::hugeint) * sum((y * 1e9)::hugeint))::double
    / nullif(exact_sd(x) * exact_sd(y) * 1e18 * count(*) * (count(*) - 1), 0.0)
);
