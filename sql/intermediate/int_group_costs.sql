-- int_group_costs: one row per model, checkpoint with a judgment of this run. cost_usd is null where a price is
-- unknown.
with judgments as (select * from stg_judgments),

outputs as (select * from int_outputs),

final as (
    select
        outputs.model,
        outputs.checkpoint,
        case when count(*) = count(judgments.cost_usd) then exact_sum(judgments.cost_usd) end as cost_usd,
    from judgments
    inner join outputs on judgments.output_id = outputs.output_id
    group by outputs.model, outputs.checkpoint
)

select * from final
