"""Public names of `import gradebook` besides the Scorer: evaluate, check, open_lake, load_rubric, lint.

evaluation evaluate: outputs to a published run, by the stages of the command
inputs     outputs and rubrics of a Python caller as files that the stages read
published  Run, Lake, Difference: published runs read back
scoring    score, check: one output without a lake
"""
