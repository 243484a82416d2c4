"""Check kit: what every check is built from. Used by checks, schemas, files and lint.

check              Check, CheckSettings, CheckVerdicts, Example, register_check, read_settings, gather_rows
measures           BoundsSettings, MeasureSettings: counts and measured numbers against bounds
columns            text_column, to_mask: columns as arrays; evidence_where, cut_text: texts that explain a verdict
regexes            Regex, regex_fault, gap_class, find_likely, split_at_matches: regular expressions that RE2 accepts
normalising        fold_texts, fold_case, fold_whitespace: texts without differences in writing
json_text          parse_json, find_json, extract_json: JSON of a model's output
audio_reading      open_recording, Recording: sound files, read in blocks
stack              on_a_full_stack: recursion with a full stack
Everything else is internal to this package.
"""
