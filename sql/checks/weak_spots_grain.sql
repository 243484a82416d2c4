-- One row of weak_spots per model, checkpoint, criterion_id, slice_key, slice_value.
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
        count(*) as row_count,
    from mart
    group by model, checkpoint, criterion_id, slice_key, slice_value
    having count(*) > 1
)

select * from final
