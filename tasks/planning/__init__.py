"""Missing judgments of a run, and their estimated cost.

plan               plan_run, RunPlan, CriterionPlan: plan files written, requests and cost summed up
shard_plan         ShardPlanner, shard_plan_files, open_keys: plan files of a shard
request_counts     Tally, count_asked: counts of votes and requests
estimates          read_history, estimate_questions: cost from the judge's past replies
opinion_estimates  read_past, estimate_opinion: cost per vote, also of a cascade's second judge
cases              plan_cases, read_cases, PlannedMedia: cases as stored and as shown to a judge
"""
