-- held_vectors: one row per request_key of wanted_keys whose vector the ledger has: its 16-bit floats, of the earliest
-- usable reply.
with final as (
    select request_key, from_base64(arg_min(rationale, (asked_at, judgment_id))) as vector
    from held_judgments
    where status = 'scored' and request_key in (select request_key from wanted_keys)
    group by request_key
)

select * from final
