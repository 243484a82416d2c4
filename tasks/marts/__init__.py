"""The models and checks of sql/ run over one run's files.

models            build_marts, model_order: the models in dependency order
checks            check_rows, check_marts: rules of the tables of each stage
sources           relations that the models read
"""
