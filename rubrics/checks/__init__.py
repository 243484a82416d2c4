"""Deterministic checks, a module a family; importing this package registers them all."""

from rubrics.checks import affixes, json_valid, keywords, lengths, patterns, references, rubric_lint, structure
from rubrics.checks.registry import CheckVerdicts, check_names, find_check, read_settings

FAMILIES = (affixes, json_valid, keywords, lengths, patterns, references, rubric_lint, structure)

__all__ = ["FAMILIES", "CheckVerdicts", "check_names", "find_check", "read_settings"]
