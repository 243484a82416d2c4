"""Verdicts for one criterion over one shard, one module per method.

setup            ScoringSetup, opened_setup: sessions and functions of a run
shards           score_shard, score_criteria, score_own_criteria, collect_shard: criteria over one shard
computed         score_check, score_schema, Computation, LastShards: criteria decided by code
case_criteria    score_case_criteria: per-case criteria of the rows
claims           score_claims: the claims of outputs found and checked
steps            score_steps_of: the steps of agents judged and counted
list_answers     ListAsker: replies that are lists, from the ledger or the judge
similarity       score_similarity, OtherCases: outputs beside their own texts and those of other cases
judge            score_judge, judge_outputs: verdicts of a judge
judge_shard      JudgedShards: the judges' answers about each shard
judge_sessions   judging: the sessions of a run
shard_questions  shard_questions: open questions of a shard
human_preferred  score_preferred: people's ratings before the judge
functions        FunctionPool, score_function, probe_functions: functions of users
cluster          ShardWork, compute_work: checks on workers of a cluster
feedback         write_feedback, plan_feedback: texts by the judge
try_check        try_check: one check over one row
The modules `function_worker` and `function_process` run in, or talk to, processes of their own.
"""
