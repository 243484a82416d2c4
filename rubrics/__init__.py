"""Rubrics, checks, prompts and statistics: pure functions without files, network, clock or environment of their own.

model        rubrics and their results as data; errors
text         YAML with line numbers, validation errors in plain words
check_kit    what every check is built from
schemas      JSON Schema on hostile text
checks       deterministic checks, by family
prompts      messages and replies of a judge
files        rubric files: read, validated, composed, written, compared
lint         rules for rubrics
importers    formats of other systems, in and out
statistics   means, intervals, tests, agreement, power
definitions  the shipped rubrics (YAML)
Imports go down only: lint, importers > files > checks > schemas, prompts > text, statistics, check_kit > model.
"""
