"""The lake: a DuckLake of one SQL catalog and Parquet files.

address           Lake, find_lake: where a lake is
connections       connect, commit, prepare_lake, lake_exists: open it to read, or to commit one transaction
connection_cache  connections of local SQLite lakes, reused within a process
attaching         attach, load_extensions: the catalog attached to a connection
commits           Transaction: a commit retried after a conflict
errors            faults of catalogs and servers as errors of gradebook
schema            bring_up_to_date: tables and views, created or upgraded
versions          find_version, list_versions: which version a text names; the log of versions
rows              Row, read_rows, read_run: rows of a query by column name
sql               read_sql: files of sql/
own_parts         refuse_foreign_parts: views, functions and paths that gradebook did not make
user_queries      run_query: a user's query, read only
function_lists    functions and system views of DuckDB that a user's query may name
object_store      BucketPlace: data files in object storage
data_files        stored_files, named_files: data files of tables
identity          check_identity: which catalog a data folder belongs to
orphans           orphans, remove_orphans: data files that no version reads
compaction        compact_lake: small files merged, old ones removed
"""
