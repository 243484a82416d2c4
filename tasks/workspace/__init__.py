"""A run's working folder.

folder   RunFolder: every file of a run
lock     claim_run, is_running: one process works on a run
repair   drop_unreadable: unreadable files, dropped to be written again
timings  Timing, timed: wall and CPU seconds of stages
"""
