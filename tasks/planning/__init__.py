"""Which judgments are missing, and what they will cost.

plan               RunPlan, Planning: the plan of a run, criterion by criterion, and what methods plan from
shard_plan         ShardPlanner: wanted opinions of a shard joined with the ledger; plan files read back
cases              read_cases, PlannedMedia: a shard's cases as a judge is shown them
estimates          estimate_opinion, ListPlanner, Tally: requests of a plan, counted and priced
preferences        AnswerPair, read_pairs: pairs of answers to compare, and the questions about them
similarity         ComparedTexts, VectorsPlanner: texts to compare, and the plan of their vectors
"""
