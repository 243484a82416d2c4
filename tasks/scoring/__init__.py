"""Verdicts of a run's shards, by the methods of its criteria.

shards           opened_setup, score_shard, score_criteria, score_own_criteria, collect_shard: a run's shards
feedback         write_feedback: texts by the judge
try_check        try_check: one check over one row
"""
