-- outside_paths: one row per path in the catalog that is absolute or leaves the data folder, in order; gradebook and
-- DuckLake write relative ones.
with paths as (
    select path, path_is_relative from __ducklake_metadata_lake.ducklake_data_file
    union all
    select path, path_is_relative from __ducklake_metadata_lake.ducklake_delete_file
    union all
    select path, path_is_relative from __ducklake_metadata_lake.ducklake_table
    union all
    select path, path_is_relative from __ducklake_metadata_lake.ducklake_schema
),

final as (
    select path
    from paths
    where not path_is_relative or starts_with(path, '/') or contains(path, '..')
    order by path
)

select * from final
