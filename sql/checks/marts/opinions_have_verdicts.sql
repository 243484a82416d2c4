-- Every opinion is about an output and criterion of the run that have a verdict.
-- severity: error
-- empty without: source_opinions
with opinions as (select * from stg_opinions),

verdicts as (select * from stg_verdicts),

outputs as (select * from stg_outputs),

final as (
    select
        opinions.output_id,
        opinions.criterion_id,
        opinions.judge,
    from opinions
    left join verdicts
        on opinions.output_id = verdicts.output_id
        and opinions.criterion_id = verdicts.criterion_id
    left join outputs on opinions.output_id = outputs.output_id
    where verdicts.output_id is null or outputs.output_id is null
)

select * from final
