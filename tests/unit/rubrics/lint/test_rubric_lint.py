"""The check that an output is a rubric in which lint finds nothing."""

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.files.load import read_rubric, shipped_text
from gradebook.rubrics.lint.findings import PARSER_RULES
from gradebook.rubrics.lint.linting import rules
from gradebook.rubrics.model.methods import CheckMethod

RUBRIC = """\
id: reply
version: 1.0.0
description: What a reply has to be before it is sent.
criteria:
  - id: length
    description: Between 20 and 200 words.
    threshold: 1
    method: {type: check, check: length_words, settings: {min: 20, max: 200}}
"""
TRIVIAL = RUBRIC.replace("threshold: 1", "threshold: 0")
META = read_rubric("meta_rubric")


def lint(output: str, **settings: object) -> CheckVerdicts:
    check = find_check("rubric_lint")
    return check.function(pa.table({"output": [output]}), read_settings(check, settings))


def verdict(output: str, **settings: object) -> bool | None:
    (is_passed,) = lint(output, **settings).is_passed.to_pylist()
    return is_passed


def rules_of_meta() -> list[str]:
    methods = [criterion.method for criterion in META.criteria]
    return [rule for method in methods if isinstance(method, CheckMethod) for rule in method.settings["rules"]]


def test_a_rubric_in_order_passes_without_evidence():
    found = lint(RUBRIC)
    assert (found.is_passed.to_pylist(), found.evidence.to_pylist()) == ([True], [None])


@pytest.mark.parametrize(
    ("filler", "most", "fault"),
    [
        (" ", 200_000 - len(RUBRIC), "200001 characters, at most 200000"),
        (
            "\n",
            5_000 - RUBRIC.count("\n") - RUBRIC.count(",") - RUBRIC.count("{"),
            "5001 commas, opening brackets and line ends, at most 5000",
        ),
    ],
)
def test_a_text_far_longer_than_a_rubric_is_not_told(filler, most, fault):
    assert verdict(RUBRIC + filler * most) is True
    reasons = lint(RUBRIC + filler * (most + 1)).reasons
    assert reasons is not None
    assert reasons.to_pylist() == [f"too long to lint: found {fault}"]


def test_a_warning_fails_and_is_told_with_its_line():
    (evidence,) = lint(TRIVIAL).evidence.to_pylist()
    assert evidence == "line 7 trivial-threshold: found 0, expected more than 0, the score of the worst level"


def test_warnings_do_not_count_where_errors_are_asked_for():
    assert verdict(TRIVIAL, severity="error") is True


def test_only_the_rules_given_count():
    assert verdict(TRIVIAL, rules=["no-threshold"]) is True
    assert verdict(TRIVIAL, rules=["no-threshold", "trivial-threshold"]) is False


@pytest.mark.parametrize(
    ("settings", "is_passed"),
    [
        ({}, True),
        ({"rules": ["own-function"]}, False),
        ({"rules": ["own-function"], "severity": "error"}, True),
    ],
    ids=str,
)
def test_a_note_counts_where_its_rule_is_named(settings, is_passed):
    method = "{type: function, function: graders.tone:grade}"
    called = RUBRIC.replace("{type: check, check: length_words, settings: {min: 20, max: 200}}", method)
    assert verdict(called, **settings) is is_passed


def test_a_text_that_is_no_rubric_fails():
    assert lint("no rubric").evidence.to_pylist()[0].startswith("line 1 syntax: found a single value")


def test_of_a_text_that_is_no_rubric_other_rules_can_not_tell():
    found = lint("no rubric", rules=["weight-sum"])
    assert found.is_passed.to_pylist() == [None]
    assert found.reasons is not None and found.reasons.to_pylist()[0].startswith("line 1 syntax: found a single value")


def test_more_than_three_findings_are_counted():
    unknown = "".join(f"key_{n}: 1\n" for n in range(5))
    (evidence,) = lint(unknown + RUBRIC, rules=["unknown-key"]).evidence.to_pylist()
    assert evidence.startswith("line 1 unknown-key: found the unknown key 'key_0'") and len(evidence) <= 200


def test_an_output_reads_no_file(tmp_path):
    (tmp_path / "base.yaml").write_text(RUBRIC, encoding="utf-8")
    text = f"id: b\nversion: 1.0.0\ndescription: c\nextends: {tmp_path / 'base.yaml'}\n"
    assert lint(text).evidence.to_pylist()[0].startswith("line 4 unknown-rubric:")


@pytest.mark.parametrize(
    "settings", [{"rules": []}, {"rules": "syntax"}, {"severity": "info"}, {"rule": ["syntax"]}], ids=str
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("rubric_lint"), settings)


def test_an_unknown_rule_offers_the_nearest():
    with pytest.raises(ValidationError, match="found the rule 'vague-word', expected a known one: vague-words"):
        read_settings(find_check("rubric_lint"), {"rules": ["vague-word"]})


def test_no_rows_give_no_verdicts():
    check = find_check("rubric_lint")
    found = check.function(pa.table({"output": pa.array([], pa.string())}), read_settings(check, {}))
    assert (len(found.is_passed), found.is_passed.type, found.evidence.type) == (0, pa.bool_(), pa.string())


def test_the_meta_rubric_asks_for_each_rule_once_but_for_what_it_can_not_see_and_what_is_no_fault():
    # It has no earlier version and no day; what the others note may be right.
    left_out = [
        "version-step",
        "own-function",
        "few-criteria",
        "idle-thresholds",
        "unusual-weight-sum",
        "weights-not-reviewed",
        "conditional-gate",
        "no-weight-everywhere",
    ]
    assert sorted([*rules_of_meta(), *left_out]) == [rule.id for rule in rules()]


def test_the_gate_of_the_meta_rubric_holds_the_rules_of_the_parser():
    method = META.criterion("parses").method
    assert isinstance(method, CheckMethod) and sorted(method.settings["rules"]) == sorted(PARSER_RULES)


def test_the_meta_rubric_passes_its_own_checks():
    text = shipped_text("meta_rubric")[0].decode()
    methods = [criterion.method for criterion in META.criteria]
    verdicts = [verdict(text, **method.settings) for method in methods if isinstance(method, CheckMethod)]
    assert verdicts == [True] * 7
