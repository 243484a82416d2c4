-- int_outputs_sliced: one row per output_number, slice_number. A slice is the set of outputs of a model and checkpoint
-- with one value of a metadata key: at least 5 outputs, of a key with 2 to 50 values in the run, among the first 50
-- such keys by name.
-- empty without: stg_slices
-- materialized: table
with entries as (select * from stg_slices),

outputs as (select * from int_outputs_numbered),

told as (
    select slice_key,
    from entries
    group by slice_key
    having count(distinct slice_value) between 2 and 50
    order by slice_key
    limit 50
),

sliced as (
    select
        outputs.output_number,
        outputs.group_number,
        entries.slice_key,
        entries.slice_value,
    from told
    inner join entries on told.slice_key = entries.slice_key
    inner join outputs on entries.output_id = outputs.output_id
),

slices as (
    select
        (row_number() over (order by group_number, slice_key, slice_value))::integer as slice_number,
        group_number,
        slice_key,
        slice_value,
    from sliced
    group by group_number, slice_key, slice_value
    having count(*) >= 5
),

final as (
    select
        sliced.output_number,
        slices.slice_number,
        groups.model,
        groups.checkpoint,
        slices.slice_key,
        slices.slice_value,
    from sliced
    inner join slices
        on sliced.group_number = slices.group_number
        and sliced.slice_key = slices.slice_key
        and sliced.slice_value = slices.slice_value
    inner join int_groups_counted as groups on sliced.group_number = groups.group_number
)

select * from final
