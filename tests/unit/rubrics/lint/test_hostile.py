"""Lint on texts that nobody meant to be rubrics, and on very large ones."""

from json import dumps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradebook.rubrics.lint.linting import lint_text, rules
from tests.support.bounded import bounded_work
from tests.support.law_over import law_over
from tests.support.rubric_strategies import json_values, mappings

HEAD = "id: a\nversion: 1.0.0\ndescription: b\ncriteria:\n"
LEVELS = "levels: [{id: a, score: 0, description: A}, {id: b, score: 1, description: B}]"
BROKEN = sorted((Path(__file__).parent / "broken").glob("*.yaml"))
no_deadline = settings(deadline=None)  # the first text with a check loads them all
RULE_IDS = {rule.id for rule in rules()}
# Names that mean something beside those that do not, so that the values come past the first fault.
names = st.sampled_from(["clarity", "length", "general_answer", "json_record", "text_to_speech", "voice", "judge", ""])
hostile = st.recursive(
    names | json_values,
    lambda inner: st.lists(inner, max_size=3) | mappings({}, dict.fromkeys(("use", "id", "category", "parent"), inner)),
    max_leaves=5,
)
ENTRY_KEYS = ("id", "use", "category", "parent", "weight", "threshold", "gate", "method", "levels", "scale", "metadata")
entries = mappings({}, dict.fromkeys(ENTRY_KEYS, hostile)) | hostile


def rubric_of(descriptions: list[str], method: str) -> str:
    entries = (f"- {{id: c{n}, description: {text}, threshold: 1, {method}}}" for n, text in enumerate(descriptions))
    return HEAD + "\n".join(entries)


@law_over(
    "text", ["", " ", "#", "- a", "3", "null", "\x00", b"\xff\xfe", "a: &a [*a]", "{", "id: [", "\ud800", "criteria: 3"]
)
def test_what_is_no_rubric_has_errors_with_known_rules(text: str | bytes):
    findings = lint_text(text, "a.yaml")
    assert findings and {finding.severity for finding in findings} == {"error"}
    assert {finding.rule for finding in findings} <= RULE_IDS


@no_deadline
@given(st.text() | st.binary())
def test_any_text_ends_in_findings(text: str | bytes):
    assert all(finding.mend for finding in lint_text(text, "a.yaml"))


@no_deadline
@given(st.sampled_from(BROKEN), st.integers(0, 40), st.text(max_size=12))
def test_a_rubric_with_a_line_replaced_ends_in_findings(path: Path, number: int, line: str):
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number % len(lines)] = line
    assert {finding.rule for finding in lint_text("\n".join(lines), "a.yaml")} <= RULE_IDS


@no_deadline
@given(mappings({}, dict.fromkeys(("extends", "criteria", "categories", "overall", "pass_threshold"), hostile)))
def test_any_values_in_the_place_of_what_is_taken_from_another_rubric_end_in_findings(values: dict[str, Any]):
    text = dumps({"id": "a", "version": "1.0.0", "extends": "general_answer"} | values)
    assert {finding.rule for finding in lint_text(text, "a.yaml")} <= RULE_IDS


@no_deadline
@given(st.lists(entries, max_size=3), st.lists(entries, max_size=2))
def test_any_keys_over_a_used_criterion_end_in_findings(criteria: list[Any], categories: list[Any]):
    values = {"extends": ["text_to_speech", "json_record"], "criteria": criteria, "categories": categories}
    text = dumps({"id": "a", "version": "1.0.0"} | values)
    assert {finding.rule for finding in lint_text(text, "a.yaml")} <= RULE_IDS


@law_over(
    "line",
    [
        "criteria: 5",
        "criteria: true",
        "criteria: {a: 1}",
        "criteria: [{use: [a]}]",
        "criteria: [{use: {a: 1}}]",
        "categories: [{id: [a]}]",
        "categories: [{id: {a: 1}, parent: [b]}]",
        "categories: 5",
        "criteria: [{use: clarity, category: [a]}]",
        "criteria: [{use: clarity, scale: {points: {0: a, '.5': b}}}]",
        f"criteria: [{{use: clarity, scale: {{points: {{0: a, {'9' * 400}: b}}}}}}]",
    ],
)
def test_a_wrong_value_beside_extends_is_an_error(line: str):
    findings = lint_text(f"id: a\nversion: 1.0.0\nextends: general_answer\n{line}\n", "a.yaml")
    assert findings and {finding.severity for finding in findings} == {"error"}


@no_deadline
@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_words_can_be_looked_at(descriptions: list[str]):
    text = rubric_of([dumps(each) for each in descriptions], f"method: {{type: judge}}, {LEVELS}")
    assert {finding.rule for finding in lint_text(text, "a.yaml")} <= RULE_IDS


@pytest.mark.parametrize(
    "words", ["质量如何。答案是否准确。", "Ist die Antwort höflich?", "😀", "Полный ответ?", "e\u0301 ß İ"]
)
def test_words_of_other_scripts_raise_no_alarm(words: str):
    levels = LEVELS.replace("description: A", f"description: {words} 0").replace(
        "description: B", f"description: {words} 1"
    )
    findings = lint_text(rubric_of([words], f"method: {{type: judge}}, {levels}"), "a.yaml")
    assert {finding.rule for finding in findings} <= {"description-repeats-name", "few-criteria", "idle-thresholds"}


@pytest.mark.nightly
@pytest.mark.slow
def test_ten_thousand_criteria_of_few_words_are_not_compared_each_with_each():
    # every pair shares words; compared each with each, they were 50 million pairs
    words = [f"word{n}" for n in range(40)]
    texts = [" ".join(words[n % 11 :: 1 + n % 3]) + f" x{n}" for n in range(10_000)]
    with bounded_work():
        findings = lint_text(rubric_of(texts, "method: {type: claims}"), "a.yaml")
    assert sum(finding.rule == "similar-descriptions" for finding in findings) == 9_988


def test_a_near_repetition_is_found_among_hundreds():
    texts = [f"The part {n} of the reply names the {n} sources of each figure" for n in range(500)]
    findings = lint_text(rubric_of([*texts, f"{texts[123]} again"], "method: {type: claims}"), "a.yaml")
    assert [finding.place for finding in findings if finding.rule == "similar-descriptions"] == [
        "criteria[500].description"
    ]


@law_over("part", ["is clear and ", "name ", "at most 3 ", '"', "a.", "{{", "is ", "x" * 50, "format y"])
def test_a_description_of_half_a_million_characters_is_no_trap(part: str):
    text = "'" + part * (500_000 // len(part)) + "'"
    with bounded_work():
        findings = lint_text(rubric_of([text], f"method: {{type: judge}}, {LEVELS}"), "a.yaml")
    assert {finding.rule for finding in findings} <= {"description-repeats-name", "few-criteria", "idle-thresholds"}
