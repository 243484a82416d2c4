-- held_columns: one row per table_name, column_name of the lake's tables at the version that the connection reads.
-- duckdb_columns() would bind all views first, which takes several times as long.
with tables as (
    select tables.table_id, tables.table_name
    from __ducklake_metadata_lake.ducklake_table as tables, ducklake_current_snapshot('lake') as read
    inner join __ducklake_metadata_lake.ducklake_schema as schemas on schemas.schema_id = tables.schema_id
    where schemas.schema_name = 'main'
        and tables.begin_snapshot <= read.id
        and coalesce(tables.end_snapshot > read.id, true)
),

final as (
    select tables.table_name, columns.column_name
    from __ducklake_metadata_lake.ducklake_column as columns, ducklake_current_snapshot('lake') as read
    inner join tables on tables.table_id = columns.table_id
    where columns.parent_column is null
        and columns.begin_snapshot <= read.id
        and coalesce(columns.end_snapshot > read.id, true)
)

select * from final
