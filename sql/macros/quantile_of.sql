-- quantile_of(x, up_to, total, share): the quantile of total outputs at a share (0..1), interpolated between two
-- outputs in order, the first at 0. up_to: count of outputs with this x or a lower one.
create or replace temp macro quantile_of(x, up_to, total, share) as (
    min(x) filter (up_to > floor(share * (total - 1)))
    + (
        min(x) filter (up_to > ceil(share * (total - 1)))
        - min(x) filter (up_to > floor(share * (total - 1)))
    ) * any_value(share * (total - 1) - floor(share * (total - 1)))
);
