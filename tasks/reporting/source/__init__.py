"""What the sections of a report read.

report_source  ReportSource: queries of one run at one version of the lake
criteria_tree  measured_criteria: criteria in the order of their categories
rows_layout    Lanes: models as rows of a chart
dates          read_moments: timestamps of earlier runs
findings       Finding: one remark on trust, with its sign
"""
