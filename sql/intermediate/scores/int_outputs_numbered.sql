-- int_outputs_numbered: one row per output_id. output_number identifies the output within this run only: an integer
-- groups and joins in a fraction of the memory of a text of 32 characters.
-- materialized: table
with outputs as (select * from stg_outputs),

groups as (select * from int_groups_counted),

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
