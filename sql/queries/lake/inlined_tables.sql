-- inlined_tables: one row per table_name and the catalog's table that holds rows of it, in order: rows of small
-- commits, not in files yet.
with final as (
    select tables.table_name, inlined.table_name as inlined_name
    from __ducklake_metadata_lake.ducklake_inlined_data_tables as inlined
    inner join __ducklake_metadata_lake.ducklake_table as tables on inlined.table_id = tables.table_id
    where tables.end_snapshot is null
    order by tables.table_name, inlined.table_name
)

select * from final
