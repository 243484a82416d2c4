-- t_margin(sd, n): half the width of the 95% Student t interval on a mean of n values; null where n is under 2.
create or replace macro t_margin(sd, n) as (
    case when n >= 2 then student_t_975(n - 1) * sd / sqrt(n) end
)
