"""Published runs, read back from the lake.

run_list      list_runs, latest_run, refuse_unknown_run: runs of a lake
summary       RunSummary, summarise: a run's scores, costs and notes
requirements  unmet_requirements: unmet gates and thresholds of the rubric
status        read_status: running, interrupted and failed runs
traced_scores traced_scores: scores beside the ids of traces
run_tables    score_table, criterion_table, comparison_table, noise_table: tables about a run
tables        read_table: tables of one run
stored_run    read_kept_run: a published run laid out as files again
"""
