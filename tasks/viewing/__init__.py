"""Pages of a lake on a local server, alive: `gradebook view`.

server    view_app: one app over a lake; its pages, access and headers
frame     Frame: what all pages share; each page is a module with its `routes`
home      home_page: what each rubric's last run says, runs in progress, the list of runs
progress  ProgressReader: runs in progress, with their pace
alive     the stream of what changes
run       run_page: verdict, models and criteria of one run, and its whole report
cases     read_case_grid: a run's cases, filtered
case      read_case_page: one case in full, two of its answers compared, the origin of a verdict
compared  comparison_page: two runs beside each other
rubrics   read_rubric_list, read_rubric_page: a version as a grid of criteria and levels
edited    RubricFolder, read_source: texts of rubrics that the editor reads and writes
editor    Editor: a rubric's YAML beside its form, with `--edit` alone; the only addresses that take anything
trial     Trials: a changed rubric on ten cases of a run, without a new run
people    read_people_page: raters, agreement, disagreements, and what is worth rating
sql_page  read_sql_page: rows of a statement, the tables and worked questions
"""
