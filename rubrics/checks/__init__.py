"""Deterministic checks, by family.

registry  families, check_names, find_check: checks by name; describe_check: a check in plain values
grading   run_check: a check, strict or loose; grade_checked: verdicts of checked criteria
Families, a module each: length, keywords, language, privacy, dialogue, steps; json_outputs and syntax; audio and
audio_loudness. Families with a folder: answers, grounding, ifeval, markdown, style.
A family's modules register its checks; `registry.FAMILIES` names them. Everything else is internal.
"""
