"""A run's working folder.

folder   RunFolder: every file of a run
lock     claim_run, is_running: one process works on a run
repair   drop_unreadable: files that do not read, dropped to be written anew
timings  Timing, timed: wall and CPU seconds of stages
"""
