"""The pipeline: the stages of an evaluation and the order of them.

check_request  CheckedRequest, check_request: the request with its files read, or every fault of it
open_run       opened_run: the run's row, folder and lock, and its end as published or failed
pipeline       the order of the stages, written once
prefect_tasks  the stages as Prefect tasks: names, retries, tags
quality        validate: data-quality suites of a stage, their findings stored
aggregate      aggregate_run: marts of a run and their checks
publish        publish_run: verdict files, marts and the run's row in one transaction
notes          run_notes: sentences a reader of the run should know
preview        preview_run: dry run
cost_preview   preview_change: price of another rubric or judge
rebuild        rebuild_run, and compare_marts: a published run's tables built again and compared
rescore        rescore_run: a run of old verdicts under a new rubric version
review         review_artifact: one text against several rubrics
"""
