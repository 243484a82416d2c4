"""Published runs, read back from the lake.

runs          list_runs, latest_run, read_table, traced_scores: runs of a lake, and the tables of one
summary       RunSummary, summarise: a run's scores, costs and notes
requirements  check_requirements: gates and thresholds of the rubric, unmet or decided on intervals
status        read_status: running, interrupted and failed runs
verdict       run_verdict: which model may ship and why, its facts and next steps
provenance    read_origins: a verdict traced back to its output, prompt, reply and price
origin_fields origin_fields: an origin as named texts
run_tables    score_table, criterion_table, comparison_table, noise_table: tables about a run
cost_preview  preview_change: cost of a run's outputs with another rubric or judge
stored_run    read_stored_run: a published run laid out as files again
"""
