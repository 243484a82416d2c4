-- table_columns: one row per table_name, column_name of the tables at the version that the connection reads. DuckDB's
-- own list takes ten times as long, as it binds all views for their columns.
with read_version as (select id from ducklake_current_snapshot('lake')),

final as (
    select tables.table_name, columns.column_name
    from __ducklake_metadata_lake.ducklake_table as tables
    inner join __ducklake_metadata_lake.ducklake_column as columns on tables.table_id = columns.table_id
    cross join read_version
    where columns.parent_column is null
        and tables.begin_snapshot <= read_version.id
        and (tables.end_snapshot is null or tables.end_snapshot > read_version.id)
        and columns.begin_snapshot <= read_version.id
        and (columns.end_snapshot is null or columns.end_snapshot > read_version.id)
)

select * from final
