"""Which judgments are missing, and what they will cost.

plan               RunPlan, prepare_plan, plan_run: the plan of a run, criterion by criterion
shard_plan         ShardPlanner: wanted opinions of a shard joined with the ledger; plan files read back
claims             ListPlanner: requests that criteria judged by lists, of claims or steps, take
cases              read_cases, PlannedMedia: a shard's cases as a judge is shown them
request_counts     Tally: opinions that the ledger answers, and requests that the others take
estimates          estimate_questions: tokens and dollars, from past replies of the judge
opinion_estimates  estimate_opinion: the same for each opinion of a panel or cascade
"""
