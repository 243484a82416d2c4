"""Ways to score criteria, one module each, with everything that depends on the method.

table            METHODS, method_of: one object for each kind of method
plan             prepare_plan, plan_run: the plan of a run, by the methods of its criteria
method           ScoringMethod, CodeMethod, ScoringSetup: what a method may do, and what it gets
check            the methods check, schema and ratings
function, judge, claims, steps, preference, similarity: the others
list_answers     ListMethod, ListJudges, ListAsker: judges asked about parts of outputs
judge_shard      JudgedShards, shard_questions: open questions of a shard, and the judges' answers
embeddings       Space, embed_texts: vectors of texts
function_worker  the process in which functions of users are called
"""
