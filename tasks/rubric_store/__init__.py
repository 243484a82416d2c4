"""Rubrics: versions in the lake, files on disk.

versions   find_rubric, store_rubric, load_rubric: immutable versions in the lake; a rubric as a caller has it
questions  add_questions_of_run: a run's questions to people, and the ratings that answer them
files      lint_rubrics, import_file, export_source: rubric files
"""
