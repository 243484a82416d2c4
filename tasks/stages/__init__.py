"""The pipeline: the stages of an evaluation and the order of them.

check_request  CheckedRequest, check_request: the request with its files read, or every fault of it
open_run       opened_run, previewed_run: the run's row, folder and lock, and its end as published or failed
pipeline       complete_run, evaluate_run: the order of the stages, written once
submit         Stages, StagesInThreads: how stages are carried out
prefect_tasks  TASKS: the stages as Prefect tasks, with their names
plan           ingest_run, plan_judgments: from files to validated shards, and what is left to ask
batches        ask_run_in_batches: batches of a judge, before the rest is asked online
score          collect_verdicts, write_run_feedback: what follows the scoring of a shard's criteria
quality        validate: data-quality suites of a stage, their findings stored
aggregate      aggregate_run, built_marts: marts of a run and their checks
publish        publish_run, conclude_run: verdict files, marts and the run's row in one transaction; the report
notes          run_notes: sentences a reader of the run should know
preview        preview_run: dry run
cost_preview   preview_change: price of another rubric or judge
rebuild        rebuild_run, and compare_marts: a published run's tables built again and compared
rescore        rescore_run: a run of old verdicts under a new rubric version
review         review_artifact: one text against several rubrics
"""
