-- planned_questions: one row per row of wanted_keys, with its judgment in the ledger, null where there is
-- none. The earliest usable judgment of a key is final.
with stored as (
    select
        request_key,
        arg_min(
            struct_pack(status, level_id, distribution, evidence, rationale, cost_usd, paid_by := run_id),
            (asked_at, judgment_id)
        ) as judgment,
    from held_judgments
    where status = 'scored' and request_key in (select request_key from wanted_keys)
    group by request_key
),

final as (
    select wanted.*, unnest(stored.judgment)
    from wanted_keys as wanted
    left join stored on wanted.request_key = stored.request_key
)

select * from final
