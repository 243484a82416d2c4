-- differing_pairs: one row per differing row of a mart, in the order of `key`, at most $most_count: the published row
-- and the rebuilt row of the same key, null where one is missing. is_same: whether both have the same key.
with published as (select * from differing where balance > 0),

rebuilt as (select * from differing where balance < 0),

final as (
    select published, rebuilt
    from published
    full join rebuilt on {is_same}
    order by {key}
    limit $most_count
)

select * from final
