-- missing_keys: one row per request_key of wanted_keys without a usable reply in the ledger.
with usable as (select request_key from held_judgments where status = 'scored'),

final as (
    select request_key
    from wanted_keys
    anti join usable using (request_key)
)

select * from final
