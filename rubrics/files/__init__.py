"""Rubric files: read, validated, composed, written and compared.

load           read_rubric, parse_rubric, shipped_rubrics; compose: `extends` and `use`
validate       validate, validate_case_criteria: all faults of a file's values
dump           rubric_yaml, rubric_values: a rubric as YAML; drafted_text: a draft of a new one
versions       rubric_digest, canonical_body, find_differences; required_step: the version step that a change requires
case_criteria  case_criteria_fault, case_criteria_table: per-case criteria
tables         criteria_table, levels_table: a rubric as Arrow tables
editor_schema  editor_schema: JSON Schema for editors
Everything else is internal to this package.
"""
