"""Check that an output is a rubric without faults, so that a rubric can evaluate rubrics."""

import difflib
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field, field_validator

from gradebook.rubrics.check_kit.check import (
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.lint.findings import PARSER_RULES, LintFinding
from gradebook.rubrics.lint.linting import lint_text, rules

MOST_FINDINGS_SHOWN = 3
MOST_CHARACTERS = 200_000  # characters of a rubric
MOST_ENTRIES = 5_000  # commas, opening brackets and line ends, each of which may start a faulty criterion


class LintSettings(CheckSettings):
    """Rules to apply, and the lowest severity that counts."""

    rules: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """ids of lint rules, which may include notes; default: all except notes"""
    severity: Literal["error", "warning"] = "warning"
    """`error` ignores warnings and notes"""

    @field_validator("rules")
    @classmethod
    def _rules_are_known(cls, rule_ids: tuple[str, ...] | None) -> tuple[str, ...] | None:
        known_ids = [rule.id for rule in rules()]
        for rule_id in rule_ids or ():
            if rule_id not in known_ids:
                near = difflib.get_close_matches(rule_id, known_ids, n=1) or [", ".join(known_ids)]
                raise ValueError(f"found the rule {rule_id!r}, expected a known one: {near[0]}")
        return rule_ids


@register_check(
    "rubric_lint",
    LintSettings,
    cost="heavy",
    examples=(
        Example("id: reply\nversion: 1.0.0\ncriteria: []\n", False, {"severity": "error"}),
        Example("criteria: []\n", None, {"rules": ["vague-words"]}),
        Example(
            "id: reply\nversion: 1.0.0\ndescription: A short reply.\ncriteria:\n"
            "  - {id: length, description: At most 50 words., threshold: 1,\n"
            "     method: {type: check, check: length_words, settings: {max: 50}}}\n",
            True,
            {"severity": "error"},
        ),
    ),
)
def rubric_lint(shard: pa.Table, settings: LintSettings) -> CheckVerdicts:
    """The output is a rubric in YAML without lint findings, or without findings of the given rules.

    The evidence lists the first findings with their lines. An output is unscored if it is not a rubric for a reason
    outside the given rules, or if it has more than 200,000 characters or 5,000 commas, opening brackets and line ends.
    The output may extend shipped rubrics; no file is read.
    """
    return gather_rows(_lint(text, settings) for text in text_column(shard, "output").to_pylist())


def _lint(text: str, settings: LintSettings) -> RowFinding:
    if (fault := _size_fault(text)) is not None:
        return RowFinding(None, reason=f"too long to lint: {fault}")
    findings = lint_text(text, "output")
    relevant = [finding for finding in findings if _counts(finding, settings)]
    if relevant:
        return RowFinding(False, _describe(relevant))
    refused = [finding for finding in findings if finding.rule in PARSER_RULES]
    return RowFinding(None, None, _describe(refused)) if refused else RowFinding(True)


def _size_fault(text: str) -> str | None:
    """Reason why a text takes too long to lint; None if it does not."""
    if len(text) > MOST_CHARACTERS:
        return f"found {len(text)} characters, at most {MOST_CHARACTERS}"
    entry_count = sum(map(text.count, ",{[\n"))
    if entry_count > MOST_ENTRIES:
        return f"found {entry_count} commas, opening brackets and line ends, at most {MOST_ENTRIES}"
    return None


def _counts(finding: LintFinding, settings: LintSettings) -> bool:
    if settings.rules is not None and finding.rule not in settings.rules:
        return False
    if settings.severity == "error":
        return finding.severity == "error"
    return finding.severity != "note" or settings.rules is not None  # a note counts if its rule is named


def _describe(findings: list[LintFinding]) -> str:
    listed = "; ".join(
        f"line {finding.line or 1} {finding.rule}: {finding.message}" for finding in findings[:MOST_FINDINGS_SHOWN]
    )
    hidden_count = len(findings) - MOST_FINDINGS_SHOWN
    return f"{listed}; and {hidden_count} more" if hidden_count > 0 else listed
