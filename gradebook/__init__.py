"""gradebook: a rubric evaluation pipeline for the outputs of generative models.

flows     Prefect flows and the command line
tasks     the stages of a run and what they need, with every side effect
rubrics   rubrics, checks, prompts and statistics, without side effects
sql       the models, views and queries of the tables
pages     templates, styles and scripts of the report
examples  outputs, replies and ratings of the demo
"""

import time

LOADED_AT = time.perf_counter()  # the start of a command, for its costs
