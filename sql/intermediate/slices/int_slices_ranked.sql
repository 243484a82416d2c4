-- int_slices_ranked: one row per slice_number, criterion_id on which the slice does worse than the model's other
-- outputs: the 100 of each model, checkpoint with the largest loss, gates ranked apart.
-- empty without: int_outputs_sliced
-- materialized: table
with slices as (select * from int_slices_compared),

ranked as (
    select
        *,
        row_number() over (
            partition by model, checkpoint, is_gate order by loss desc, criterion_id, slice_key, slice_value
        ) as place,
    from slices
    where loss > 1e-9
),

final as (
    select * exclude (place),
    from ranked
    where place <= 100
)

select * from final
