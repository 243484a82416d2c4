-- first_texts: one row per request_key of the relation wanted_keys that has a usable reply: its earliest text.
with final as (
    select
        request_key,
        arg_min(rationale, (asked_at, judgment_id)) as rationale,
    from judgments
    where status = 'scored' and request_key in (select request_key from wanted_keys)
    group by request_key
)

select * from final
