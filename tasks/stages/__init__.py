"""The pipeline: the stages of an evaluation and their order.

check_request  CheckedRequest, check_request: a request with its files read, or its faults
open_run       opened_run, previewed_run: a run's row, folder and lock, and its end as published or failed
pipeline       publish_evaluation, complete_run, run_to_rate: the order of the stages
submit         Stages, StagesInThreads: engines that execute the stages
prefect_tasks  TASKS: the stages as Prefect tasks, with their names
run_stages     ingest_run, plan_judgments, ask_run_in_batches, collect_verdicts, write_run_feedback
quality        outputs_findings, verdict_findings, check_suites: SQL checks and expectation suites of a stage
aggregate      aggregate_run, built_marts: marts of a run and their checks
publish        publish_run, conclude_run: verdict files, marts and the run's row in one transaction; the report
notes          run_notes: notes for readers of a run
preview        preview_run: dry run
rebuild        rebuild_run, check_mart: a published run's marts rebuilt and compared
rescore        rescore_run: a new run with old verdicts and another rubric
review         review_artifact, ReviewMap: one text judged with several rubrics; its state
"""
