"""The models of sql/ run over one run's files.

models            build_marts, run_sql_checks, model_order: the models in dependency order
sources           relations that the staging models read
functions         add_functions: Python functions that the models call
"""
