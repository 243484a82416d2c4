"""Rubrics: versions in the lake, files on disk.

versions  find_rubric, store_rubric, list_versions: immutable versions in the lake
given     load_rubric: a rubric from a file, a name, a mapping or an object
questions add_questions_of_run: what a run asks people, and the ratings that answer it
files     lint_rubrics, import_file, export_source: rubric files
"""
