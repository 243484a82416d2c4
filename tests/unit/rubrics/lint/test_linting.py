"""The rules on rubrics that are in order, that take from others, and that follow a version before."""

import re
from datetime import date
from pathlib import Path

import pytest

from gradebook.rubrics.files.load import parse_rubric, shipped_rubrics, shipped_text
from gradebook.rubrics.lint.findings import LintFinding
from gradebook.rubrics.lint.linting import lint_text, rules
from tests.support.law_over import law_over

ROOT = Path(__file__).parents[4]
CLEAN = ("general_answer", "json_record", "meta_rubric")
RULES_OF_THE_SOURCE = re.compile(r"(?:ModelFault\(\s*|, |return |: )\"([a-z]+(?:-[a-z]+)+)\"")
REPLY = """\
id: reply
version: 1.0.0
description: What a reply has to be before it is sent.
criteria:
  - id: length
    description: Between 20 and 200 words.
    threshold: 1
    method: {type: check, check: length_words, settings: {min: 20, max: 200}}
"""
PENALTY = """\
  - id: slogan
    description: The reply holds a slogan.
    weight: -2
    method: {type: check, check: contains, settings: {any: [Best in town]}}
"""


def weighing(*weights: float, weight_sum: float | None = None) -> str:
    """A rubric of checks with these weights, a rationale each."""
    parts = "".join(
        f"  - id: {name}\n    description: The section on {name}.\n    weight: {weight}\n    rationale: Why.\n"
        "    threshold: 1\n    method: {type: check, check: contains, settings: {any: [x]}}\n"
        for name, weight in zip(("risks", "costs", "dates"), weights, strict=True)
    )
    sums = "" if weight_sum is None else f"weight_sum: {weight_sum}\n"
    return f"{REPLY.partition('criteria:')[0]}{sums}criteria:\n{parts}"


def naming(name: str, other: str) -> str:
    """REPLY and its penalty with these names."""
    penalty = PENALTY.replace("slogan\n", f"slogan\n    name: {other}\n", 1)
    return REPLY.replace("id: length\n", f"id: length\n    name: {name}\n") + penalty


def faults(text: str, previous: str | None = None, folder: Path | None = None) -> list[LintFinding]:
    """Findings except notes."""
    before = None if previous is None else parse_rubric(previous, "before.yaml")
    return [finding for finding in lint_text(text, "a.yaml", before, folder) if finding.severity != "note"]


def found(text: str, previous: str | None = None) -> list[tuple[int | None, str]]:
    return [(finding.line, finding.rule) for finding in faults(text, previous)]


def only(text: str, previous: str) -> LintFinding:
    (finding,) = faults(text, previous)
    return finding


def noted(text: str) -> list[tuple[int | None, str, str]]:
    """Notes but that the threshold decides nothing."""
    notes = [found for found in lint_text(text, "a.yaml") if found.severity == "note" and "idle" not in found.rule]
    return [(found.line, found.rule, found.message) for found in notes]


@pytest.mark.parametrize("name", CLEAN)
def test_the_shipped_rubric_is_clean(name: str):
    assert lint_text(*shipped_text(name)) == ()


@law_over("name", shipped_rubrics())
def test_a_shipped_rubric_has_no_finding_but_methods_that_nothing_scores_yet(name: str):
    assert [str(finding) for finding in lint_text(*shipped_text(name)) if finding.severity != "note"] == []


def test_a_rubric_in_order_has_no_finding():
    assert found(REPLY) == []


def test_descriptions_that_differ_late_are_no_duplicates():
    first = REPLY.replace("Between", "one " * 800 + "between")
    second = first.partition("criteria:\n")[2].replace("id: length", "id: size").replace("between", "outside")
    assert found(first + second) == []


def test_a_penalty_needs_no_threshold():
    assert found(REPLY + PENALTY) == []


def test_a_pass_threshold_of_0_is_not_trivial_where_penalties_lead_below_it():
    # the worst output is too long and holds the slogan: (1 * 0 - 2 * 1) / 1 = -2
    assert found((REPLY + PENALTY).replace("criteria:", "pass_threshold: 0\ncriteria:")) == []


def test_a_pass_threshold_at_the_worst_levels_is_trivial():
    levels = "levels: [{id: low, score: 0.4}, {id: high, score: 1}]"
    text = REPLY.replace("criteria:", "pass_threshold: 0.4\ncriteria:").replace(
        "    method", f"    {levels}\n    method"
    )
    assert found(text) == [(4, "trivial-threshold"), (9, "no-bottom-level")]


@pytest.mark.parametrize(
    ("weights", "weight_sum"),
    [
        ((0.333, 0.333, 0.333), 1),  # 0.999: off by 0.001
        ((0.335, 0.335, 0.325), 1),  # 0.995: off by 0.005
        ((33.333, 33.333, 33.333), 100),  # 99.999: off by 0.001
        ((0.0333, 0.0333, 0.0333), 0.1),  # 0.0999: off by a thousandth of 0.1
    ],
)
def test_a_sum_within_5_thousandths_is_right(weights: tuple[float, ...], weight_sum: float):
    assert found(weighing(*weights, weight_sum=weight_sum)) == []


@pytest.mark.parametrize(
    ("weights", "weight_sum"),
    [
        ((0.33, 0.33, 0.33), 1),  # 0.99: off by 0.01
        ((0.5, 0.25, 0.24), 1),  # 0.99: off by 0.01
        ((0.5, 0.25, 0.256), 1),  # 1.006: off by 0.006
        ((0.033, 0.033, 0.033), 0.1),  # 0.099: off by a hundredth of 0.1
    ],
)
def test_a_sum_further_off_is_wrong(weights: tuple[float, ...], weight_sum: float):
    assert found(weighing(*weights, weight_sum=weight_sum)) == [(4, "weight-sum")]


@pytest.mark.parametrize("weights", [(0.7, 0.8, 0.5), (1.2, 0.8, 0.5)])
def test_decimal_weights_of_another_sum_are_noted_at_the_criteria(weights: tuple[float, ...]):
    message = f"found weights that add up to {sum(weights):g}, expected 1"
    assert noted(weighing(*weights)) == [(4, "unusual-weight-sum", message)]


@pytest.mark.parametrize("weights", [(0.2, 0.3, 0.5), (0.33, 0.33, 0.33), (3, 2, 2), (12.5, 37.5, 50), (1.5, 2, -1)])
def test_shares_percentages_ratios_and_points_are_usual_weights(weights: tuple[float, ...]):
    assert noted(weighing(*weights)) == []


def test_two_criteria_are_noted_as_few():
    assert noted(REPLY) == [(4, "few-criteria", "found 1, expected 3 or more")]


@pytest.mark.parametrize("rubric_id", ["final", "reply_latest", "draft", "reply_v2"])
def test_an_id_about_its_state_is_found(rubric_id: str):
    assert found(REPLY.replace("id: reply", f"id: {rubric_id}")) == [(1, "status-word-id")]


def test_a_word_of_state_within_a_name_is_a_name():
    assert found(REPLY.replace("id: reply", "id: final_answer")) == []


def test_a_pass_threshold_of_1_is_strict_where_a_criterion_has_degrees():
    levels = "[{id: low, score: 0}, {id: mid, score: 0.5}, {id: high, score: 1}]"
    strict = REPLY.replace("criteria:", "pass_threshold: 1\ncriteria:")
    assert found(strict) == []  # pass or fail: nothing lies between
    assert found(strict.replace("    method", f"    levels: {levels}\n    method")) == [(4, "strict-threshold")]


def test_equal_weights_are_right_where_each_has_its_rationale():
    assert found(weighing(2, 2, 2)) == []


def test_one_rationale_of_three_does_not_stand_for_equal_weights():
    text = weighing(2, 2, 2).replace("    rationale: Why.\n", "", 2)
    assert found(text) == [(4, "equal-weights")]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Tone fit", "Fit of tone"),
        ("Factual accuracy", "Accuracy of the facts"),
        ("Relevant sources", "The sources' relevance"),
    ],
)
def test_a_name_is_the_same_in_another_order_and_with_other_endings(name: str, other: str):
    assert found(naming(name, other)) == [(11, "duplicate-name")]


@pytest.mark.parametrize(
    ("name", "other"), [("Use of context", "Use of content"), ("Form", "Formality"), ("Safe", "Not safe")]
)
def test_names_of_other_roots_are_two_names(name: str, other: str):
    assert found(naming(name, other)) == []


def test_weights_of_a_tree_differ_where_its_categories_do():
    tree = "categories: [{id: a, weight: 2}, {id: b}]\ncriteria:"
    text = REPLY.replace("criteria:", tree).replace("    threshold", "    category: a\n    threshold")
    parts = "".join(
        f"  - id: {name}\n    category: b\n    description: The section on {name}.\n    threshold: 1\n"
        "    method: {type: check, check: contains, settings: {any: [x]}}\n"
        for name in ("risks", "costs")
    )
    assert found(text + parts) == []


def test_what_is_taken_from_another_rubric_is_found_at_the_line_that_takes_it():
    use = "  - use: accuracy\n    name: Length\n    threshold: 0\n  - {use: clarity, name: length}\n"
    text = REPLY.replace("criteria:", "extends: general_answer\ncriteria:") + use
    assert found(text) == [(11, "duplicate-name"), (12, "trivial-threshold"), (13, "duplicate-name")]


def test_a_file_beside_the_rubric_is_read_only_where_its_folder_is_given(tmp_path: Path):
    (tmp_path / "base.yaml").write_text(REPLY, encoding="utf-8")
    text = "id: b\nversion: 1.0.0\ndescription: c\nextends: base.yaml\n"
    assert [finding.rule for finding in lint_text(text, "a.yaml")] == ["unknown-rubric"]
    assert faults(text, folder=tmp_path) == []


def test_the_criteria_of_an_extended_rubric_are_found_at_extends(tmp_path: Path):
    (tmp_path / "base.yaml").write_text(REPLY.replace("    threshold: 1\n", ""), encoding="utf-8")
    findings = faults("id: b\nversion: 1.0.0\ndescription: c\nextends: base.yaml\n", folder=tmp_path)
    assert [(finding.line, finding.rule) for finding in findings] == [(4, "no-threshold")]


def test_the_same_version_of_the_same_rubric_is_right():
    assert found(REPLY, REPLY) == []


def test_another_wording_under_the_same_version_asks_for_a_patch():
    finding = only(REPLY.replace("Between", "From"), REPLY)
    assert (finding.rule, finding.line, finding.mend) == ("version-step", 2, "Set version to 1.0.1.")


def test_a_new_criterion_under_a_patch_asks_for_a_minor_step():
    method = "method: {type: check, check: contains, settings: {any: [Hi]}}"
    gate = f"  - id: hello\n    description: It greets.\n    gate: true\n    {method}\n"
    finding = only(REPLY.replace("1.0.0", "1.0.1") + gate, REPLY)
    assert (finding.rule, finding.mend) == ("version-step", "Set version to 1.1.0.")


def test_a_larger_step_than_needed_is_right():
    assert found(REPLY.replace("Between", "From").replace("1.0.0", "2.0.0"), REPLY) == []


def test_an_older_version_is_a_step_back():
    assert only(REPLY, REPLY.replace("1.0.0", "1.2.0")).message == "found 1.0.0 after 1.2.0, expected 1.2.0 or later"


def test_another_rubric_is_no_version_before():
    assert found(REPLY.replace("Between", "From"), REPLY.replace("id: reply", "id: letter")) == []


@pytest.mark.parametrize(
    ("reviewed", "words"),
    [("2026-06-02", None), ("2026-06-01", "found a review 181 days ago"), ("2026-02-31", "a day of the calendar")],
)
def test_weights_are_to_be_reviewed_after_180_days(reviewed: str, words: str | None):
    text = REPLY.replace("id: reply\n", f"id: reply\nreviewed: {reviewed}\n", 1)
    known = lint_text(text, "r.yaml")
    messages = [each.message for each in lint_text(text, "r.yaml", today=date(2026, 11, 29)) if each not in known]
    assert len(messages) == (words is not None) and all(str(words) in message for message in messages)


def test_findings_are_in_the_order_of_their_lines_then_rules():
    text = REPLY.replace("description: What a reply has to be before it is sent.\n", "").replace(
        "threshold: 1", "threshold: 0"
    )
    assert found(text) == [(1, "no-description"), (6, "trivial-threshold")]


def test_a_rule_has_a_sentence_for_its_summary_and_one_for_its_mend():
    for rule in rules():
        assert re.fullmatch(r"[A-Z][^\n]+\.", rule.summary) and re.fullmatch(r"[A-Z][^\n]+\.", rule.mend)


def test_every_rule_that_the_parser_names_is_known():
    texts = [
        (ROOT / "rubrics" / f"{name}.py").read_text("utf-8")
        for name in ("files/validate", "model/rubric", "model/levels", "files/load")
    ]
    named = {rule for text in texts for rule in RULES_OF_THE_SOURCE.findall(text)}
    assert {"gate-with-weight", "unknown-check", "unknown-use"} <= named <= {rule.id for rule in rules()}


def test_a_finding_reads_as_one_line():
    (finding,) = faults(REPLY.replace("threshold: 1", "threshold: 0"))
    message = "found 0, expected more than 0, the score of the worst level"
    assert str(finding) == f"a.yaml:7: warning trivial-threshold: criteria[0].threshold: {message}"


@pytest.mark.parametrize(("most", "is_named"), [(10, True), (11, False)])
def test_the_points_of_a_number_field_need_no_description(most: int, is_named: bool):
    text = f"""\
id: errors
version: 1.0.0
criteria:
  - id: slips
    description: How many slips does the run have?
    scale: {{min: 0, max: {most}}}
    method: {{type: ratings}}
"""
    named = [finding for finding in lint_text(text, "errors.yaml") if finding.rule == "level-without-description"]
    assert bool(named) == is_named
