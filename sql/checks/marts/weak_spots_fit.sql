-- A row of weak_spots has an adjusted p at or above its p, and one to three examples.
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
        p,
        p_adjusted,
    from mart
    where not (
        coalesce(p_adjusted, p, 0.0) between coalesce(p, 0.0) and 1
        and len(example_ids) between 1 and 3
    )
)

select * from final
