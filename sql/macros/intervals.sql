-- student_t_975(df): the 0.975 quantile of Student's t with df degrees of freedom, whole or not; null below df 1. Its
-- logarithm is smooth in 1/df: the Chebyshev fit of degree 12 over df 1 and more is within 2e-9 of it.
create or replace macro student_t_975(df) as (
    case
        when df >= 1 then exp(list_reduce(
            [
                0.000010565916, -0.000003675501, -0.000055926050, 0.000041724027, 0.000194522778, -0.000381615729,
                -0.000602300292, 0.003754776015, -0.003392129516, -0.027120524536, 0.152121787435, 0.958291486214,
                1.459231746565
            ]::double[],
            lambda total, coefficient: total * (2.0 / df - 1.0) + coefficient
        ))
    end
);

-- is_rate(x): whether all x are 0 or 1, so that their mean is a rate.
create or replace macro is_rate(x) as (
    bool_and(x in (0.0, 1.0))
);

-- wilson_end(rate, n, side): an end of the 95% score interval on a rate of n trials (Wilson 1927), in 0..1: the lower
-- end for side -1, the upper end for side 1; the interval always has a width. n may be an effective sample size; null
-- where n is 0.
create or replace macro wilson_end(rate, n, side) as (
    case
        when n > 0 then clip(
            (
                rate + 1.920729410347062 / n
                + side * 1.959963984540054 * sqrt(rate * (1 - rate) / n + 0.960364705173531 / n ** 2)
            ) / (1 + 3.841458820694124 / n)
        )
    end
);

-- cluster_worth(rate, n, spread): effective sample size of the n values of a rate; spread is the variation between
-- clusters (int_clusters_compared; null: none). It is n over the design effect, with a correction by t for few clusters
-- (Korn and Graubard 1998), at most n. Equal clusters have no design effect and count one each; null for one cluster.
create or replace macro cluster_worth(rate, n, spread) as (
    case
        when spread is null or spread.unit_count = n then n
        when spread.unit_count < 2 then null
        when spread.standard_error <= 1e-12 then spread.unit_count
        else least(
            n, rate * (1 - rate) * (student_t_975(n - 1) / student_t_975(spread.df) / spread.standard_error) ** 2
        )
    end
);
