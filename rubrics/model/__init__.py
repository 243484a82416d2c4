"""Data model of rubrics and their results: pydantic models for files, Arrow schemas for stored rows.

errors       GradebookError and its subclasses, Fault
rubric       Rubric, Criterion, Category; WeightTree, effective_weights
levels       Level, Scale, rank_levels
methods      the methods that score a criterion, by `type`
taxonomy     Taxonomy, StepMark: marks of an agent's steps; claim_marks: ClaimMark, marks of claims
json_values  Row; canonical_json: JSON text in one form; digest_of: of bytes and texts; drop_none
outputs      Output, OutputRow, SHARD_SCHEMA, output_id; columns of an outputs file and their renaming
steps        Step, StepRow, steps_array: what an agent did before its answer
verdicts     VERDICT_SCHEMA, verdict_rows; OPINION_SCHEMA, several votes behind a verdict; JUDGMENT_SCHEMA, paid replies
scores       ScoreRule, OutputScore: score of an output; RewardRule, Reward: the same for a trainer
collecting   PromptRow, collect_key, output_row: outputs collected from a model
functions    vectorised, is_within: functions of users
Everything else is internal to this package.
"""
