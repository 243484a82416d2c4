"""From a dataset's files to validated shards.

discovery      dataset_files: files that a path, folder or glob names
decompression  open_decompressed: gzip and zstd, bounded
file_formats   read_format, load_json, BadRows: JSON Lines, CSV, TSV and Parquet as rows; refused rows
row_parser     RowFitter, split_conversation: a row as an output, or its faults
shards         ShardWriter, QuarantineWriter: Parquet shards and refused rows
ingest         ingest_outputs: all of it, for one dataset
case_criteria  write_case_criteria: per-case criteria of rows
media          read_sound, MediaFiles: images and sounds that outputs name
sample         CaseSample, cut_blocks: cases drawn at random, and blocks of cases
"""
