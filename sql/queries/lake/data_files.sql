-- data_files: one row per data or delete file that some version of the lake reads, with the parts of its path: also
-- of old versions, because published data is never removed.
with tables as (
    select
        table_id,
        arg_max(schema_id, begin_snapshot) as schema_id,
        arg_max(table_name, begin_snapshot) as table_name,
        arg_max(path, begin_snapshot) as path,
    from __ducklake_metadata_lake.ducklake_table
    group by table_id
),

schemas as (
    select schema_id, arg_max(path, begin_snapshot) as path
    from __ducklake_metadata_lake.ducklake_schema
    group by schema_id
),

files as (
    select table_id, path, file_size_bytes, record_count from __ducklake_metadata_lake.ducklake_data_file
    union all
    select table_id, path, file_size_bytes, delete_count from __ducklake_metadata_lake.ducklake_delete_file
),

final as (
    select
        tables.table_name,
        schemas.path as schema_path,
        tables.path as table_path,
        files.path as file_path,
        files.file_size_bytes,
        files.record_count,
    from files
    left join tables on files.table_id = tables.table_id
    left join schemas on tables.schema_id = schemas.schema_id
    order by all
)

select * from final
