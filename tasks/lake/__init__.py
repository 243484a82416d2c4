"""The lake: a DuckLake of one SQL catalog and Parquet files.

address       Lake, find_lake: where a lake is
connections   connect, commit, prepare_lake, lake_exists: open it to read or to commit; cached connections
attaching     attach, load_extensions, check_identity: the catalog attached, and the data folder it belongs to
commits       Transaction: a commit retried after a conflict
errors        faults of catalogs and servers as errors of gradebook
schema        bring_up_to_date, list_tables, refuse_foreign_parts: tables and views; parts that others made
versions      find_version, list_versions: which version a text names; the log of versions
rows          Row, read_rows, read_run: rows of a query by column name
sql           read_sql: files of sql/
user_queries  run_query: a user's query, read only, with the functions and views that it may name
query_rows    write_csv: rows of a user's query in the forms of a file
object_store  BucketLocation: data files in object storage
data_files    stored_files, named_files, digest_file: data files of tables, and their digests
compaction    compact_lake: small files merged, orphans and old files removed
"""
