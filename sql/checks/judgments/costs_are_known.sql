-- Every judgment has a known price.
-- severity: warning
with rows as (select * from judgments),

final as (
    select
        criterion_id,
        count(*) as judgment_count,
    from rows
    where cost_usd is null
    group by criterion_id
)

select * from final
