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
user_queries      run_query: a user's query, read only
object_store      BucketPlace: data files in object storage
data_files        stored_files, orphans: data files of tables
compaction        compact_lake: small files merged, old ones removed
"""
