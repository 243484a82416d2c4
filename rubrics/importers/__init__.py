"""Importers and exporters of other systems' rubrics, cases and ratings.

registry       find_format, FORMAT_NAMES: formats by name
interfaces     Imported, Exported, Format: input and output of every format
case_export    export_cases: rows of cases in a foreign format
join_answers   join_answers: cases with the answers of a second file
json_lines     strict JSON and JSON Lines
ratings        ratings of people, in formats of their own
Formats of rubrics: potato, dataknobs, dimensions, tree, autorubric. Formats of cases: scale, healthbench, prometheus,
checklist, ifeval. Everything else is internal to this package.
"""
