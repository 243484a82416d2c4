-- Every judgment has a known price.
-- severity: warning
-- empty without: source_judgments
with judgments as (select * from stg_judgments),

final as (
    select
        criterion_id,
        count(*) as judgment_count,
    from judgments
    where cost_usd is null
    group by criterion_id
)

select * from final
