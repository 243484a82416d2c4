-- Every verdict is about an output of the run.
-- severity: error
with verdicts as (select * from stg_verdicts),

outputs as (select * from int_outputs_numbered),

final as (
    select
        verdicts.output_id,
        verdicts.criterion_id,
    from verdicts
    anti join outputs on verdicts.output_id = outputs.output_id
)

select * from final
