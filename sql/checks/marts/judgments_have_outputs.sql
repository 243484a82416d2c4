-- Every judgment paid for is about an output of the run, or its cost would be lost in run_scores.
-- severity: error
-- empty without: source_judgments
with judgments as (select * from stg_judgments),

outputs as (select * from int_outputs_numbered),

final as (
    select
        judgments.output_id,
        judgments.criterion_id,
        judgments.cost_usd,
    from judgments
    anti join outputs on judgments.output_id = outputs.output_id
)

select * from final
