"""Rubric files: read, validated, composed, written and compared.

load           read_rubric, parse_rubric, shipped_rubrics
validate       validate, validate_case_criteria: all faults of a file's values
inheritance    compose: `extends` and `use`
dump           rubric_yaml, rubric_values: a rubric as YAML
digest         rubric_digest, question_digest, canonical_body, find_differences
semver         required_step, step_fault: the version step that a change requires
case_criteria  case_criteria_fault, case_criteria_table: per-case criteria
tables         criteria_table, levels_table: a rubric as Arrow tables
editor_schema  editor_schema: JSON Schema for editors
Everything else is internal to this package.
"""
