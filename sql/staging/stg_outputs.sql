-- stg_outputs: one row per output_id, without its texts.
with outputs as (select * from source_outputs),

final as (
    select
        output_id,
        case_id,
        model,
        checkpoint,
        sample_index,
        cluster,
    from outputs
)

select * from final
