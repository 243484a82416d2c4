-- anchor_prices: one row: mean cost in US dollars of a reply of the judge $judge on the criteria of $anchor_set, null
-- where none is known.
with final as (
    select avg(judgments.cost_usd) as cost_usd
    from judgments
    where
        judgments.judge = $judge
        and judgments.status = 'scored'
        and judgments.criterion_id in (select criterion_id from anchors where anchor_set = $anchor_set)
)

select * from final
