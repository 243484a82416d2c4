"""Terminal output: one module for each command's results.

terminal       people, notes: the consoles on stdout and stderr; show, show_rows, say, plain
fitted_table   FittedTable: a table that fits its console
progress_bars  shown_progress: stages while a run works
tables         write_rows: `gradebook sql --format`
ends           end_interrupted, end_process: the end of a command, also before gradebook is imported
"""
