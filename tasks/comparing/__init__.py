"""Two runs or two models, case by case.

compare         compare_runs: the whole comparison, also unpaired and corrected by people's ratings
run_comparison  compare_with_baseline: a run compared before it is published, and the table `run_comparisons`
baseline        choose_baseline, refuse_baseline: the run that --baseline means; pinned runs; the stored outcome
sides           read_side, pair_groups: which model of one run is compared with which of the other; their judges
case_pairs      pair_sides: outputs of the same case
figures         ComparedRow: differences, intervals, tests, and remarks on them
attribution     explain: a difference split into criteria; the cases that changed most
gate            evaluate_gate: the rules of --require and --fail-if applied to figures
interim_analyses  plan_interim_analyses, analyse_block: interim analyses of a run that may stop early
stopping        StopPlan, Stopping: the stored plan of these analyses, and the outcome of the last one
verdict         comparison_verdict, RunVerdict: a sentence to act on, its facts and next steps
aa_test         measure_noise: the same outputs judged twice (A/A test), replicates as runs of their own
expected_power  expect_margin: what a gate on a margin can show with so many cases
cascade_choice  calibrate_cascade: when a cascade asks its second judge, from verdicts of both
second_opinion  give_second_opinion: criteria drawn together by a hierarchical model
decision_study  study_decisions: variance components, and what a larger evaluation would gain
sentences       a comparison in words, and COMPARED: columns of its tables
"""
