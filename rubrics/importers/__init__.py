"""Importers and exporters of other systems' rubrics, cases and ratings.

registry      find_format, FORMAT_NAMES: formats by name; Imported, Exported, Format: input and output of every format
foreign_file  strict JSON, JSON Lines and YAML: read with all their faults, and written
case_rows     cases of a file, join_answers: their answers from a second file, export_cases: cases in a foreign format
ratings       ratings of people, in formats of their own
Formats of rubrics: potato, dataknobs, dimensions, tree, autorubric. Formats of cases: scale, healthbench, prometheus,
checklist, ifeval. Formats that are only read: openai-graders, openai-evals, promptfoo, deepeval, lm-eval, pairs,
inspect-scores, tau-bench, terminal-bench, multichallenge, advancedif. Everything else is internal to this package.
"""
