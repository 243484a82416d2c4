-- held_vectors: one row per request_key of wanted_keys whose vector the ledger has: its 16-bit floats, of the earliest
-- usable reply. The reply is chosen before its vector is read, so that memory holds keys alone.
with usable as (
    select request_key, judgment_id, asked_at
    from held_judgments
    where status = 'scored' and request_key in (select request_key from wanted_keys)
),

earliest as (
    select request_key, arg_min(judgment_id, (asked_at, judgment_id)) as judgment_id
    from usable
    group by request_key
),

final as (
    select request_key, from_base64(rationale) as vector
    from held_judgments
    semi join earliest using (judgment_id)
)

select * from final
