"""Two runs or two models, case by case.

compare         compare_runs: the whole comparison, for commands and reports
run_comparison  compare_with_baseline: a run compared before it is published, and the table `run_comparisons`
baseline        find_baseline: the run that --baseline names
model_pairs     pair_groups: which model of one run is compared with which of the other
case_pairs      pair_sides: outputs of the same case
figures         ComparedRow: differences, intervals, tests
attribution     explain: a difference split into criteria; the cases that lost most
gate            evaluate_gate: the rules of --require and --fail-if applied to figures
aa_test         measure_noise: the same outputs judged twice (A/A test)
corrected       corrected_differences: by people's ratings
decision_study  study_decisions: variance components, and what a larger evaluation would gain
unpaired        compare_unpaired: means over different cases
replicates      split_replicates: replies of one judge as runs of their own
mart_rows       comparison_table: rows of the mart
tables          COMPARED: columns of the tables of a comparison
remarks         conflict_words, caution_words, dominance_sentence: figures in words
sentences       a comparison in words
"""
