"""Deterministic checks, one package per family.

registry    families, check_names, find_check: checks by name
modes       run_check: run a check, strict or loose
grading     grade_checked: verdicts of checked criteria
describing  describe_check: a check in plain values, for commands and docs
Families: length, keywords, markdown, structured, answers, style, language, grounding, privacy, dialogue, audio, ifeval.
A family's modules register its checks; `registry.FAMILIES` names them. Everything else is internal.
"""
