-- Means and interval ends of weak_spots are in 0..1, gains in 0..1 or null, and each has an example.
-- severity: error
-- empty without: weak_spots
with mart as (select * from weak_spots),

final as (
    select
        model,
        checkpoint,
        criterion_id,
        slice_key,
        slice_value,
        mean,
        rest_mean,
        gain,
    from mart
    where not (
        mean between 0 and 1
        and rest_mean between 0 and 1
        and coalesce(ci_low, 0.0) between 0 and 1
        and coalesce(ci_high, 0.0) between 0 and 1
        and coalesce(gain, 0.0) >= 0
        and coalesce(p, 0.0) between 0 and 1
        and coalesce(p_adjusted, p, 0.0) between coalesce(p, 0.0) and 1
        and len(example_ids) between 1 and 3
    )
)

select * from final
