-- int_slice_outputs: one row per output_number, slice_number. A slice is the outputs of a model and checkpoint with one
-- value of a key of their metadata: 5 outputs or more, of a key that takes 2 to 50 values in the run.
with entries as (select * from stg_slices),

outputs as (select * from int_outputs),

told as (
    select
        slice_key,
        count(distinct slice_value) as value_count,
    from entries
    group by slice_key
    having count(distinct slice_value) between 2 and 50
),

sliced as (
    select
        outputs.output_number,
        outputs.model,
        outputs.checkpoint,
        entries.slice_key,
        entries.slice_value,
    from told
    inner join entries on told.slice_key = entries.slice_key
    inner join outputs on entries.output_id = outputs.output_id
),

numbered as (
    select
        *,
        dense_rank() over (order by model, checkpoint, slice_key, slice_value) as slice_number,
        count(*) over (partition by model, checkpoint, slice_key, slice_value) as output_count,
    from sliced
),

final as (
    select
        output_number,
        slice_number,
        model,
        checkpoint,
        slice_key,
        slice_value,
    from numbered
    where output_count >= 5
)

select * from final
