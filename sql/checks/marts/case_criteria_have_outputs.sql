-- Every per-case criterion belongs to an output of the run.
-- severity: error
-- empty without: source_case_criteria
with criteria as (select * from stg_case_criteria),

outputs as (select * from int_outputs_numbered),

final as (
    select
        criteria.output_id,
        criteria.criterion_id,
    from criteria
    anti join outputs on criteria.output_id = outputs.output_id
)

select * from final
