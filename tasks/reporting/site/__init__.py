"""The site of a lake: home page, reports, rubrics.

site     write_site
runs     read_home: runs and each model's trend
rubrics  read_rubric_pages: rubrics and their versions
"""
