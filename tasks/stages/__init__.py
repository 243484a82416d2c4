"""The pipeline: the stages of an evaluation and their order.

check_request  CheckedRequest, check_request: a request with its files read, or its faults
open_run       opened_run, previewed_run: a run's row, folder and lock, and its end as published or failed
pipeline       publish_evaluation, complete_run, evaluate_run: the order of the stages
submit         Stages, StagesInThreads: engines that execute the stages
prefect_tasks  TASKS: the stages as Prefect tasks, with their names
plan           ingest_run, plan_judgments: files to validated shards, and the missing judgments
batches        ask_run_in_batches: batch requests of a judge, before online requests
score          collect_verdicts, write_run_feedback: steps after the scoring of a shard's criteria
quality        validate: data-quality suites of a stage, with stored findings
expectations   check_suite: great-expectations suites
aggregate      aggregate_run, built_marts: marts of a run and their checks
publish        publish_run, conclude_run: verdict files, marts and the run's row in one transaction; the report
notes          run_notes: notes for readers of a run
preview        preview_run: dry run
cost_preview   preview_change: cost of another rubric or judge
rebuild        rebuild_run, and compare_marts: a published run's marts rebuilt and compared
rescore        rescore_run: a new run with old verdicts and another rubric
review         review_artifact: one text judged with several rubrics
unjudged       run_to_rate: outputs evaluated without a judge, for people to rate
"""
