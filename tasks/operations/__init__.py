"""Work over many runs of a lake: nightly suites, checkpoints, sweeps, the doctor.

suites                read_suites, suite_request: the file of suites and the request of each
nightly               run_night: suites in turn, their outcomes and budget
checkpoint            decide_checkpoint, Decider: a checkpoint evaluated, compared with earlier ones and decided about
checkpoint_decisions  decide, list_checkpoints, undecided: the table `checkpoints`; those without a decision
anchors               make_anchors, choose_outputs: frozen outputs that a judge is asked about again
sentinel              watch_judge: anchors asked each night, and whether their scores moved
linking               link_rubrics: offset between the scores of two rubric versions
doctor                examination of a lake and its machine
suite_cases           measure_coverage, suite_items: the choice of cases of a suite
"""
