"""Data model of rubrics and their results: pydantic models for files, Arrow schemas for stored rows.

errors      GradebookError and its subclasses, Fault
rubric      Rubric, Criterion, Category; WeightTree, effective_weights
levels      Level, Scale, rank_levels
methods     the methods that score a criterion, by `type`
canonical   canonical_json: JSON text in one form
digests     digest_of: bytes and texts known again
outputs     Output, OutputRow, SHARD_SCHEMA, output_id
steps       Step, StepRow, steps_array: what an agent did before its answer
columns     columns of an outputs file and their renaming
verdicts    VERDICT_SCHEMA, verdict_rows
judgments   JUDGMENT_SCHEMA: replies of judges in the ledger
opinions    OPINION_SCHEMA: several votes behind one verdict
collecting  PromptRow, collect_key, output_row: outputs collected from a model
counts      counted: a count with its noun
rows        Row; arrays: Floats
functions   vectorised, is_within: functions of users
Everything else is internal to this package.
"""
