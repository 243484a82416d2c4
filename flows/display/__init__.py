"""Terminal output: one module for each command's results.

terminal       stdout, stderr: the two consoles; show, show_rows, say, plain
progress_bars  shown_progress, shown_activity: stages of a run, and the activity of another command
tables         write_rows: `gradebook sql --format`
ends           end_interrupted, end_process: the end of a command, also before gradebook is imported
"""
