-- int_outputs: one row per output_id. output_number stands for the id within this run alone: a number groups and joins
-- in a fraction of the memory that a text of 32 characters takes.
with outputs as (select * from stg_outputs),

final as (
    select
        row_number() over () as output_number,
        output_id,
        case_id,
        model,
        checkpoint,
        sample_index,
        cluster,
    from outputs
)

select * from final
