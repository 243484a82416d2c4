-- int_outputs: one row per output_id. output_number stands for the id within this run alone: a number groups and joins
-- in a fraction of the memory that a text of 32 characters takes.
-- materialized: table
with outputs as (select * from stg_outputs),

groups as (select * from int_groups),

final as (
    select
        (row_number() over ())::integer as output_number,
        groups.group_number,
        outputs.output_id,
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        outputs.cluster,
    from outputs
    inner join groups
        on outputs.model = groups.model
        and outputs.checkpoint is not distinct from groups.checkpoint
)

select * from final
