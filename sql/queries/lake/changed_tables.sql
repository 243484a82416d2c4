-- changed_tables: one row per table_name that the versions $first to $last changed.
with changes as (
    select unnest(flatten(map_values(changes))) as changed
    from ducklake_snapshots('lake')
    where snapshot_id between $first and $last
),

final as (
    select table_name
    from ducklake_table_info('lake')
    where table_id::varchar in (select changed from changes)
)

select * from final
