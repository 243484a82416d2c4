-- scattered_tables: one row per table_name with at least $least_count data files under $small_bytes, in order.
with final as (
    select tables.table_name
    from __ducklake_metadata_lake.ducklake_data_file as files
    inner join __ducklake_metadata_lake.ducklake_table as tables on files.table_id = tables.table_id
    where files.end_snapshot is null and tables.end_snapshot is null and files.file_size_bytes < $small_bytes
    group by tables.table_name
    having count(*) >= $least_count
    order by tables.table_name
)

select * from final
