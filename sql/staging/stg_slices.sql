-- stg_slices: one row per output_id, slice_key, slice_value: the metadata keys of an output with a single text, number
-- or boolean. A text has at most 100 characters.
with outputs as (select * from source_outputs),

entries as (
    select
        output_id,
        unnest(json_keys(metadata)) as slice_key,
        unnest(json_extract(metadata, '$.*')) as found,
    from outputs
    where metadata is not null
),

final as (
    select
        output_id,
        slice_key,
        found ->> '$' as slice_value,
    from entries
    where json_type(found) in ('VARCHAR', 'BOOLEAN', 'BIGINT', 'UBIGINT', 'DOUBLE') and length(found ->> '$') <= 100
)

select * from final
