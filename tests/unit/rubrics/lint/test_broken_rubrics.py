"""The broken rubrics beside this file: each line that lint has to name ends in `# <- RULE`, or several rules."""

import re
from pathlib import Path

from gradebook.rubrics.lint.findings import LintFinding, find_by_fault
from gradebook.rubrics.lint.linting import lint_text, rules
from gradebook.rubrics.model.errors import Fault
from tests.support.law_over import law_over

BROKEN = sorted((Path(__file__).parent / "broken").glob("*.yaml"))
MARK = re.compile(r"# <- (.+)$")


def marked(path: Path) -> list[tuple[int, str]]:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    found = [(number, mark[1]) for number, line in lines if (mark := MARK.search(line))]
    return sorted((number, rule) for number, names in found for rule in names.split(", "))


def linted(path: Path) -> tuple[LintFinding, ...]:
    return lint_text(path.read_bytes(), path.name)


@law_over("path", BROKEN)
def test_a_broken_rubric_is_found_by_its_rule_at_its_line_and_by_no_other(path: Path):
    # Most have one criterion with a threshold, so as to show one fault.
    usual = {"few-criteria", "idle-thresholds"} - {path.stem.replace("_", "-")}
    found = [each for each in linted(path) if each.rule not in usual]
    assert sorted((finding.line, finding.rule) for finding in found) == marked(path)


@law_over("path", BROKEN)
def test_a_finding_says_what_was_found_what_was_expected_and_how_to_mend_it(path: Path):
    for finding in linted(path):
        assert "found" in finding.message and "expected" in finding.message
        assert re.fullmatch(r"[A-Z].*[a-z0-9_]\.", finding.mend)


def test_there_are_at_least_25_broken_rubrics():
    assert len(BROKEN) >= 25


def test_every_rule_has_a_broken_rubric():
    hit = {rule for path in BROKEN for _, rule in marked(path)}
    # tested by themselves: a step takes two versions, a review a day, and no fault of today is left without a rule
    assert {rule.id for rule in rules()} - hit == {"version-step", "weights-not-reviewed", "invalid"}


def test_a_fault_without_a_rule_of_its_own_is_invalid():
    finding = find_by_fault(Fault("a.yaml", 3, "criteria[1].name: found 3, expected text"))
    assert finding == LintFinding(
        "invalid", "error", "a.yaml", 3, "criteria[1].name", "found 3, expected text", "Follow the message."
    )
