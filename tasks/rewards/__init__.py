"""Scores and rewards of single outputs in this process, without a lake; rewards of a published run.

outputs   ReadOutput, RowReader, Score: texts and rows of a caller read as outputs, and their outcome
computing CodeScorer: checks, schemas and functions over a few outputs
sessions  JudgeSessions: open sessions of a judge, over faults, forks and restarts
asking    Asking: judged criteria of a few outputs, by the sessions that runs use
by_shard  ShardScorer: criteria of a few outputs whose methods score shards
scorer    RubricScorer: all criteria of a rubric; a reward function for trainers
trainers  a scorer in the forms that verl, OpenRLHF, slime and verifiers call
export    rows of a published run for training: rewards, pairs, curriculum, best of n
"""
