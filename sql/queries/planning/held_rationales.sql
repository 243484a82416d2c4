-- held_rationales: one row per request_key of wanted_keys that the ledger answers, with the rationale of its earliest
-- usable reply.
with final as (
    select request_key, arg_min(rationale, (asked_at, judgment_id)) as rationale
    from held_judgments
    where status = 'scored' and request_key in (select request_key from wanted_keys)
    group by request_key
)

select * from final
