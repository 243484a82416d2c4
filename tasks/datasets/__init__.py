"""From a dataset's files to validated shards.

discovery      dataset_files: files that a path, folder or glob names
decompression  open_unpacked: gzip and zstd, bounded
file_formats   read_format: JSON Lines, CSV, TSV and Parquet as rows
json_texts     load_json: JSON as other programs write it
conversations  split_conversation: a row whose answer is the last of its messages
row_parser     RowFitter: a row as an output, or its faults
shards         ShardWriter, QuarantineWriter: Parquet shards and refused rows
bad_rows       BadRows: refused rows, with the limit on their share
ingest         ingest_outputs: all of it, for one dataset
case_criteria  write_case_criteria: per-case criteria of rows
media          read_sound, MediaFiles: images and sounds that outputs name
"""
