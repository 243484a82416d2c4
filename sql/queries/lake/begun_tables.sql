-- begun_tables: one row per table_name that had a row in some version: DuckLake has statistics of it.
with final as (
    select tables.table_name
    from __ducklake_metadata_lake.ducklake_table as tables
    semi join __ducklake_metadata_lake.ducklake_table_stats as statistics on tables.table_id = statistics.table_id
    where tables.end_snapshot is null
)

select * from final
