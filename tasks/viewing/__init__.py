"""Pages of a lake on a local server, alive: `gradebook view`.

server    view_app, View: one app over a lake; its pages, access and headers
home      home_page: what each rubric's last run says, runs in progress, the list of runs
progress  ProgressReader: runs in progress, with their pace
run       run_page: verdict, models and criteria of one run, and its whole report
compared  comparison_page: two runs beside each other
"""
