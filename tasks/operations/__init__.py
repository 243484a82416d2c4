"""Work over many runs of a lake: nightly suites, checkpoints, sweeps, the doctor.

suites                read_suites, suite_request: the file of suites and the request of each
nightly               run_night: suites in turn, their outcomes and budget
checkpoint            decide_checkpoint: a checkpoint evaluated and decided about
checkpoint_gate       Decider: a checkpoint compared with the previous and the best one
checkpoint_decisions  decide, list_checkpoints: the table `checkpoints`
checkpoint_sweep      find_saved, undecided: saved checkpoints without a decision
doctor                examination of a lake and its machine
"""
