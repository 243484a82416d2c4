"""What people see in a terminal: one module for each command's results.

terminal       show_rows, table_titled, plain: tables on stdout and stderr
progress_bars  shown_progress: stages while a run works
tables         write_rows: `gradebook sql --format`
"""
