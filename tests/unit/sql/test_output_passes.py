"""output_scores: failed_gates, and the three values of is_passed."""

import pytest

GATED = {"tone": {"weight": 1.0}, "safe": {"weight": 0.0, "is_gate": True, "gate_threshold": 0.5}}
TWO_GATES = {name: {"weight": 0.0, "is_gate": True} for name in ("safe", "legal")}
STRICT = {"tone": {"weight": 1.0, "threshold": 0.5}, "facts": {"weight": 1.0, "threshold": 0.5}}


def passed(connection):
    return connection.execute("select is_passed from output_scores").fetchall()[0][0]


def failed_gates(connection):
    return connection.execute("select failed_gates from output_scores").fetchall()[0][0]


def test_a_gate_fails_below_its_mark(build):
    assert failed_gates(build(GATED, {"o": {"tone": 1.0, "safe": 0.4}})) == ["safe"]


def test_a_gate_passes_at_its_mark(build):
    assert failed_gates(build(GATED, {"o": {"tone": 1.0, "safe": 0.5}})) == []


def test_failed_gates_are_named_in_order(build):
    assert failed_gates(build(TWO_GATES, {"o": {"safe": 0.0, "legal": 0.0}})) == ["legal", "safe"]


def test_an_unscored_gate_has_not_failed(build):
    assert failed_gates(build(GATED, {"o": {"tone": 1.0, "safe": None}})) == []


def test_an_output_without_any_verdict_has_no_failed_gate(build):
    assert failed_gates(build(GATED, {"o": {}})) == []


def test_a_gate_ignores_the_mark_of_a_weighted_criterion(build):
    # tone 0.2 is under its gate_threshold of 1, which applies only to gates
    assert failed_gates(build(GATED, {"o": {"tone": 0.2, "safe": 1.0}})) == []


@pytest.mark.parametrize(("safe", "expected"), [(0.0, False), (1.0, True), (None, None)])
def test_a_gate_decides_is_passed_or_leaves_it_unknown(build, safe, expected):
    assert passed(build(GATED, {"o": {"tone": 1.0, "safe": safe}})) is expected


def test_a_gate_without_a_verdict_row_leaves_is_passed_unknown(build):
    assert passed(build(GATED, {"o": {"tone": 1.0}})) is None


def test_a_failed_gate_fails_the_output_despite_missing_scores(build):
    assert passed(build(GATED, {"o": {"tone": None, "safe": 0.0}}, pass_threshold=0.5)) is False


@pytest.mark.parametrize(("tone", "expected"), [(0.69, False), (0.7, True), (0.71, True)])
def test_the_pass_threshold_is_met_at_and_above_it(build, tone, expected):
    assert passed(build({"tone": {}}, {"o": {"tone": tone}}, pass_threshold=0.7)) is expected


def test_a_float_sum_at_the_threshold_passes(build):
    # 0.1 x 0.3 + 0.2 x 0.3 + 0.7 x 0.3 is 0.3 on paper and 0.29999999999999993 in floats
    criteria = {"a": {"weight": 0.1}, "b": {"weight": 0.2}, "c": {"weight": 0.7}}
    assert passed(build(criteria, {"o": {"a": 0.3, "b": 0.3, "c": 0.3}}, pass_threshold=0.3)) is True


@pytest.mark.parametrize(("pass_threshold", "expected"), [(0.5, True), (0.75, None), (0.9, None), (0.95, False)])
def test_bounds_on_one_side_of_the_threshold_decide(build, pass_threshold, expected):
    # facts (0.4) is unscored: between 0.5 and 0.9
    criteria = {"tone": {"weight": 0.6}, "facts": {"weight": 0.4}}
    connection = build(criteria, {"o": {"tone": 0.5 / 0.6, "facts": None}}, pass_threshold=pass_threshold)
    assert passed(connection) is expected


def test_without_a_threshold_a_missing_score_in_a_weighted_criterion_does_not_matter(build):
    assert passed(build(GATED, {"o": {"tone": None, "safe": 1.0}})) is True


@pytest.mark.parametrize(("facts", "expected"), [(0.4, False), (0.5, True), (None, None)])
def test_required_thresholds_apply_to_each_criterion(build, facts, expected):
    assert passed(build(STRICT, {"o": {"tone": 1.0, "facts": facts}}, require_thresholds=True)) is expected


def test_thresholds_that_are_not_required_decide_nothing(build):
    assert passed(build(STRICT, {"o": {"tone": 1.0, "facts": 0.0}}, pass_threshold=0.5)) is True


def test_without_requirements_nothing_passes_or_fails(build):
    assert passed(build(STRICT, {"o": {"tone": 1.0, "facts": 1.0}})) is None


def test_a_criterion_without_a_threshold_has_no_requirement(build):
    assert passed(build({"tone": {}}, {"o": {"tone": None}}, require_thresholds=True)) is True


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_a_required_threshold_is_unknown_under_any_policy_for_missing_scores(build, missing):
    connection = build(STRICT, {"o": {"tone": 1.0, "facts": None}}, missing=missing, require_thresholds=True)
    assert passed(connection) is None


def test_a_rubric_with_only_gates_passes_if_all_gates_pass(build):
    assert passed(build(TWO_GATES, {"o": {"safe": 1.0, "legal": 1.0}})) is True


def test_a_rubric_with_only_gates_never_reaches_a_pass_threshold(build):
    # there is no score to hold against it: unknown, not passed
    assert passed(build(TWO_GATES, {"o": {"safe": 1.0, "legal": 1.0}}, pass_threshold=0.5)) is None
