-- stg_slices: one row per output_id, slice_key, slice_value: the keys of an output's metadata that hold one text,
-- number or truth value, a text of at most 100 characters.
with outputs as (select * from source_outputs),

entries as (
    select
        outputs.output_id,
        entry.key as slice_key,
        entry.value ->> '$' as slice_value,
        entry.type as kind,
    from outputs
    cross join json_each(outputs.metadata) as entry
    where outputs.metadata is not null
),

final as (
    select
        output_id,
        slice_key,
        slice_value,
    from entries
    where kind in ('VARCHAR', 'BOOLEAN', 'BIGINT', 'UBIGINT', 'DOUBLE') and length(slice_value) <= 100
)

select * from final
