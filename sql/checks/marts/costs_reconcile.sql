-- The cost of all stages is the cost of all judgments this run paid for.
-- severity: error
with costs as (select * from stage_costs),

judgments as (select * from stg_judgments),

sums as (
    select
        (select coalesce(sum(cost_usd), 0.0) from costs where cost_usd is not null) as stages_usd,
        (select count(*) from costs where cost_usd is null) as unknown_count,
        (select coalesce(sum(cost_usd), 0.0) from judgments) as judgments_usd,
),

final as (
    select *
    from sums
    where unknown_count = 0 and abs(stages_usd - judgments_usd) > 1e-9 * greatest(1.0, abs(judgments_usd))
)

select * from final
