-- small_tables: one row per table_name that never had more than $most_count rows and has no more than $most_bytes in
-- files: is_empty is true where it never had any. Statistics only grow, so this holds at each version until now.
with final as (
    select tables.table_name, statistics.next_row_id = 0 as is_empty
    from __ducklake_metadata_lake.ducklake_table as tables
    inner join __ducklake_metadata_lake.ducklake_table_stats as statistics on tables.table_id = statistics.table_id
    where tables.end_snapshot is null
        and statistics.next_row_id <= $most_count
        and statistics.file_size_bytes <= $most_bytes
)

select * from final
