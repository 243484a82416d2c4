"""Readers shared by the sections of a report.

report_source  ReportSource: queries of one run at one version of the lake
criteria_tree  measured_criteria: criteria in the order of their categories
rows_layout    Lanes: models as rows of a chart
dates          read_points: means of earlier runs, in order of time
findings       Finding: remark on trust, with its sign
"""
