"""Per-case criteria: alone, together with a rubric, in its categories and in its tree."""

import pytest

from tests.support.nightly import matrix

TONE = {"tone": {}}
GATE = {"weight": 0.0, "is_gate": True}


def score_of(connection, output_id="o", names="score"):
    found = connection.execute(f"select {names} from output_scores where output_id = ?", [output_id]).fetchone()
    return found[0] if len(found) == 1 else found


def rows(connection, query):
    return connection.execute(query).fetchall()


def category(connection, names, name="voice"):
    return connection.execute(f"select {names} from category_scores where category = ?", [name]).fetchone()


# -------- output_scores
def test_without_a_rubric_only_per_case_criteria_count(build):
    # (3 x 0.5 + 1 x 1) / 4 = 0.625
    connection = build({}, {"o": {"kind": 0.5, "right": 1.0}}, own={"o": {"kind": {"weight": 3.0}, "right": {}}})
    assert score_of(connection) == 0.625


def test_per_case_criteria_are_weighted_with_those_of_the_rubric(build):
    # (1 x 1 + 3 x 0) / 4 = 0.25; the other output has only the rubric's
    connection = build(
        TONE, {"o": {"tone": 1.0, "kind": 0.0}, "p": {"tone": 1.0}}, own={"o": {"kind": {"weight": 3.0}}}
    )
    assert (score_of(connection), score_of(connection, "p")) == (0.25, 1.0)


def test_one_id_may_name_different_criteria_in_different_rows(build):
    # (1 + 3 x 0) / 4 and (1 + 1 x 0) / 2
    own = {"o": {"kind": {"weight": 3.0}}, "p": {"kind": {"weight": 1.0}}}
    connection = build(TONE, {name: {"tone": 1.0, "kind": 0.0} for name in own}, own=own)
    assert (score_of(connection), score_of(connection, "p")) == (0.25, 0.5)


def test_a_per_case_penalty_lowers_the_points(build):
    # (1 - 0.5 x 1) / 1
    connection = build(TONE, {"o": {"tone": 1.0, "rude": 1.0}}, own={"o": {"rude": {"weight": -0.5}}})
    assert score_of(connection) == 0.5


@pytest.mark.nightly
def test_the_uniform_score_includes_per_case_criteria(build):
    # (1 + 0) / 2, with any weights
    connection = build(TONE, {"o": {"tone": 1.0, "kind": 0.0}}, own={"o": {"kind": {"weight": 3.0}}})
    assert score_of(connection, names="uniform_score") == 0.5


@pytest.mark.parametrize(
    ("missing", "expected"),
    # kind (3 of 4) is unscored: between 1/4 and 1; only tone; 1/4
    [("null", (None, 0.25, 1.0, 1)), ("skip", (1.0, 1.0, 1.0, 1)), ("zero", (0.25, 0.25, 0.25, 1))],
)
def test_a_missing_per_case_score_counts_by_the_rubrics_policy(build, missing, expected):
    connection = build(TONE, {"o": {"tone": 1.0, "kind": None}}, own={"o": {"kind": {"weight": 3.0}}}, missing=missing)
    assert score_of(connection, names="score, score_low, score_high, unscored_count") == expected


def test_a_per_case_criterion_without_a_verdict_row_is_a_missing_score(build):
    assert score_of(build(TONE, {"o": {"tone": 1.0}}, own={"o": {"kind": {}}}), names="score, unscored_count") == (
        None,
        1,
    )


@pytest.mark.nightly
def test_an_output_without_criteria_has_no_score_and_no_missing_score(build):
    connection = build({}, {"o": {"kind": 1.0}, "p": {}}, own={"o": {"kind": {}}}, pass_threshold=0.5)
    assert score_of(connection, "p", "score, unscored_count, is_passed") == (None, 0, None)


def test_nothing_is_required_of_an_output_without_criteria(build):
    connection = build({}, {"o": {"kind": 1.0}, "p": {}}, own={"o": {"kind": {}}}, require_thresholds=True)
    assert (score_of(connection, names="is_passed"), score_of(connection, "p", "is_passed")) == (True, None)


@pytest.mark.parametrize(
    ("safe", "expected"), [(0.0, (False, ["safe"])), *matrix([(1.0, (True, [])), (None, (None, []))])]
)
def test_a_per_case_gate_is_required_only_of_its_output(build, safe, expected):
    connection = build(TONE, {"o": {"tone": 1.0, "safe": safe}, "p": {"tone": 1.0}}, own={"o": {"safe": GATE}})
    assert score_of(connection, names="is_passed, failed_gates") == expected
    assert score_of(connection, "p", "is_passed") is None


def test_a_per_case_gate_has_a_mark_of_its_own_in_each_row(build):
    own = {"o": {"safe": GATE | {"gate_threshold": 0.5}}, "p": {"safe": GATE | {"gate_threshold": 0.8}}}
    connection = build({}, {name: {"safe": 0.6} for name in own}, own=own)
    assert (score_of(connection, names="is_passed"), score_of(connection, "p", "is_passed")) == (True, False)


@pytest.mark.parametrize(("kind", "expected"), [(0.4, False), *matrix([(0.5, True), (None, None)])])
def test_required_thresholds_apply_to_per_case_criteria(build, kind, expected):
    own = {"o": {"kind": {"threshold": 0.5}}}
    connection = build(TONE, {"o": {"tone": 1.0, "kind": kind}}, own=own, require_thresholds=True)
    assert score_of(connection, names="is_passed") is expected


@pytest.mark.parametrize(("gaps", "expected"), [((), 0.72), (("thanks",), 0.84)])
def test_per_case_criteria_are_at_the_top_of_a_tree(build, gaps, expected):
    # voice (3) is (0.8 + 0.4) / 2 = 0.6, facts (1) 0.8, own (1) 1: (1.8 + 0.8 + 1) / 5 = 0.72; without thanks voice is
    # 0.8: (2.4 + 0.8 + 1) / 5 = 0.84
    categories = ({"id": "voice", "weight": 3}, {"id": "facts"})
    criteria = {"kind": {"category": "voice"}, "thanks": {"category": "voice"}, "right": {"category": "facts"}}
    scores = {"kind": 0.8, "thanks": 0.4, "right": 0.8, "mine": 1.0}
    scored = {name: score for name, score in scores.items() if name not in gaps}
    connection = build(criteria, {"o": scored}, categories=categories, own={"o": {"mine": {}}}, missing="skip")
    assert score_of(connection) == expected


# -------- criterion_scores
def test_a_per_case_criterion_is_measured_over_the_outputs_that_have_it(build):
    # three outputs: two have it, one of these is scored
    scores = {"o": {"tone": 1.0, "kind": 0.5}, "p": {"tone": 1.0, "kind": None}, "q": {"tone": 1.0}}
    connection = build(TONE, scores, own={"o": {"kind": {}}, "p": {"kind": {}}})
    query = "select output_count, n, mean, coverage_rate from criterion_scores where criterion_id = 'kind'"
    assert rows(connection, query) == [(2, 1, 0.5, 0.5)]


@pytest.mark.nightly
def test_each_model_has_a_row_for_a_per_case_criterion(build):
    own = {"o": {"kind": {}}, "p": {"kind": {}}}
    outputs = {"p": {"model": "n", "checkpoint": "s1"}}
    connection = build({}, {"o": {"kind": 0.5}, "p": {"kind": 1.0}}, own=own, outputs=outputs)
    query = "select model, checkpoint, mean from criterion_scores order by model"
    assert rows(connection, query) == [("m", None, 0.5), ("n", "s1", 1.0)]


def test_the_pass_rate_of_a_per_case_criterion_uses_the_threshold_of_each_row(build):
    # 0.5 meets 0.4 but not 0.6; the third row has no threshold: 1 of 2
    own = {"o": {"kind": {"threshold": 0.4}}, "p": {"kind": {"threshold": 0.6}}, "q": {"kind": {}}}
    connection = build({}, {name: {"kind": 0.5} for name in own}, own=own)
    assert rows(connection, "select pass_rate, n from criterion_scores") == [(0.5, 3)]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("first", "second", "expected"), [("voice", "voice", "voice"), ("voice", "facts", None), (None, None, "(none)")]
)
def test_a_per_case_criterion_has_the_category_that_all_rows_name(build, first, second, expected):
    own = {"o": {"kind": {"category": first}}, "p": {"kind": {"category": second}}}
    connection = build({}, {name: {"kind": 0.5} for name in own}, own=own)
    assert rows(connection, "select category from criterion_scores") == [(expected,)]


@pytest.mark.nightly
def test_with_per_case_weights_the_rubrics_weights_stay_and_contributions_are_null(build):
    connection = build(TONE, {"o": {"tone": 1.0, "kind": 0.5}}, own={"o": {"kind": {}}})
    query = "select criterion_id, weight, contribution from criterion_scores order by criterion_id"
    assert rows(connection, query) == [("kind", None, None), ("tone", 1.0, None)]


@pytest.mark.nightly
def test_per_case_gates_do_not_affect_contributions(build):
    connection = build(TONE, {"o": {"tone": 0.5, "safe": 1.0}}, own={"o": {"safe": GATE}})
    assert rows(connection, "select contribution from criterion_scores where criterion_id = 'tone'") == [(0.5,)]
    assert category(connection, "contribution", "(none)") == (0.5,)


# -------- category_scores
@pytest.mark.nightly
def test_a_per_case_criterion_counts_in_the_category_that_it_names(build):
    # o: (1 x 1 + 3 x 0) / 4 = 0.25, p: 1; mean 0.625
    scores = {"o": {"tone": 1.0, "kind": 0.0}, "p": {"tone": 1.0}}
    own = {"o": {"kind": {"category": "voice", "weight": 3.0}}}
    connection = build({"tone": {"category": "voice"}}, scores, own=own)
    assert category(connection, "output_count, n, mean, weight, contribution") == (2, 2, 0.625, 1.0, None)


@pytest.mark.nightly
def test_a_category_of_per_case_criteria_counts_the_outputs_that_have_them(build):
    connection = build(
        TONE, {"o": {"tone": 1.0, "kind": 0.5}, "p": {"tone": 1.0}}, own={"o": {"kind": {"category": "voice"}}}
    )
    assert category(connection, "output_count, n, mean, weight, parent") == (1, 1, 0.5, None, None)


@pytest.mark.nightly
def test_a_per_case_criterion_is_weighted_with_the_members_of_its_category_in_a_tree(build):
    # voice: warmth (2) 0.4 and the per-case criterion (2) 1: 0.7; at the top its weight is 1: (0.4 + 2 x 1) / 3
    categories = ({"id": "voice"}, {"id": "warmth", "parent": "voice", "weight": 2})
    own = {"o": {"mine": {"category": "voice", "weight": 2.0}}}
    connection = build(
        {"kind": {"category": "warmth"}}, {"o": {"kind": 0.4, "mine": 1.0}}, categories=categories, own=own
    )
    assert (category(connection, "mean"), score_of(connection)) == ((pytest.approx(0.7),), pytest.approx(0.8))


@pytest.mark.nightly
def test_only_per_case_weights_count_if_the_rubric_has_only_gates_in_the_category(build):
    connection = build(
        TONE | {"safe": GATE | {"category": "voice"}},
        {"o": {"tone": 1.0, "safe": 0.0, "kind": 0.4}},
        own={"o": {"kind": {"category": "voice"}}},
    )
    assert category(connection, "mean, pass_rate") == (0.4, 0.0)


@pytest.mark.parametrize(
    ("missing", "expected"),
    # o: tone 1 of weight 1, kind (3) is unscored
    [("null", None), *matrix([("skip", 1.0), ("zero", 0.25)])],
)
def test_a_missing_per_case_score_in_a_category_counts_by_the_rubrics_policy(build, missing, expected):
    own = {"o": {"kind": {"category": "voice", "weight": 3.0}}}
    criteria = {"tone": {"category": "voice"}}
    connection = build(criteria, {"o": {"tone": 1.0, "kind": None}}, own=own, missing=missing)
    assert category(connection, "mean") == (expected,)
