-- reply_costs: one row: of the request keys $keys in the ledger, known_count (keys with a known cost) and usd, what
-- their scored replies cost whoever paid, in US dollars; own_usd: what was paid under the id $asked_by, for any key.
with priced as (
    select request_key, min(cost_usd) as usd
    from judgments
    where list_contains($keys, request_key) and status = 'scored' and cost_usd is not null
    group by request_key
),

final as (
    select
        count(*) as known_count,
        coalesce(sum(usd), 0) as usd,
        (select coalesce(sum(cost_usd), 0) from judgments where run_id = $asked_by) as own_usd,
    from priced
)

select * from final
