-- visible_views: one row per view_name, in lower case, and stored text of a view at version $at (null: the latest).
with final as (
    select lower(view_name) as view_name, sql, column_aliases
    from __ducklake_metadata_lake.ducklake_view
    where ($at is null and end_snapshot is null)
        or (begin_snapshot <= $at and (end_snapshot is null or end_snapshot > $at))
    order by all
)

select * from final
