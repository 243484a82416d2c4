-- anchor_replies: one row per request_key of $keys in the ledger: the model that answered, and the cost in US dollars
-- of all its replies, null if one is unknown. own_usd: what the run $asked_by paid for them, as far as it is known.
with replies as (
    select
        request_key,
        model_returned,
        system_fingerprint,
        case when bool_and(cost_usd is not null) over each_key then sum(cost_usd) over each_key end as cost_usd,
        coalesce(sum(case when run_id = $asked_by then cost_usd end) over each_key, 0) as own_usd,
        row_number() over (partition by request_key order by status = 'scored' desc, asked_at) as place,
    from judgments
    where list_contains($keys, request_key)
    window each_key as (partition by request_key)
),

final as (
    select request_key, model_returned, system_fingerprint, cost_usd, own_usd
    from replies
    where place = 1
)

select * from final
