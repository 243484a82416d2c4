"""Check kit: what every check is built from. Used by checks, schemas, files and lint.

check              Check, CheckSettings, CheckVerdicts, Example, register_check, read_settings
rows               RowFinding, gather_rows: checks that read one output at a time
bounds, measures   BoundsSettings, MeasureSettings: counts and measured numbers against bounds
evidence           evidence_where, cut_text, join_texts: short texts that explain a verdict
columns            text_column, to_mask: columns of a shard as arrays
matching           find_likely, split_at_matches: regular expressions over a column
regexes            Regex, regex_fault: regular expressions that RE2 accepts
character_classes  gap_class, whitespace_class: small RE2 classes for the texts at hand
json_text          parse_json, find_json, extract_json: JSON of a model's output
audio_reading      open_recording, Recording: sound files, read in blocks
samples            example_shard: a one-row shard for an example
stack              on_a_full_stack: recursion with a full stack
Everything else is internal to this package.
"""
