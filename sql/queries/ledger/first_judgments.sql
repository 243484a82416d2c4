-- first_judgments: one row per request_key of wanted_keys with a usable reply: the columns of its earliest judgment,
-- which is final.
with final as (
    select {columns}
    from judgments
    where status = 'scored' and request_key in (select request_key from wanted_keys)
    qualify row_number() over (partition by request_key order by asked_at, judgment_id) = 1
)

select * from final
