"""A rubric about rubrics: rules, a module a family; importing this package registers them all."""

from gradebook.rubrics.lint import (
    criteria,
    decidable,
    examples,
    levels,
    methods,
    parser_rules,
    questions,
    similarity,
    steps,
    thresholds,
    weights,
    words,
)
from gradebook.rubrics.lint.findings import Finding, Rule, Severity
from gradebook.rubrics.lint.linting import lint_text, rules

FAMILIES = (
    criteria,
    decidable,
    examples,
    levels,
    methods,
    parser_rules,
    questions,
    similarity,
    steps,
    thresholds,
    weights,
    words,
)

__all__ = ["FAMILIES", "Finding", "Rule", "Severity", "lint_text", "rules"]
