-- clip(x): x clipped to 0..1, null where x is null (greatest and least alone would skip the null).
create or replace temp macro clip(x) as (
    case when x is not null then greatest(0.0::double, least(1.0::double, x)) end
)
