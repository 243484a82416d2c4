"""category_scores: combined scores of a category's criteria."""

import pytest

from gradebook.rubrics.statistics.means import score_interval
from tests.support.nightly import matrix

MIXED = {
    "tone": {"category": "voice", "weight": 0.4},
    "warmth": {"category": "voice", "weight": 0.2},
    "facts": {"weight": 0.4},
}
FULL = {"o": {"tone": 0.5, "warmth": 1.0, "facts": 1.0}}


def voice(connection, names):
    return connection.execute(f"select {names} from category_scores where category = 'voice'").fetchone()


def test_the_mean_weighs_only_the_criteria_of_the_category(build):
    # (0.4 x 0.5 + 0.2 x 1.0) / 0.6 = 2 / 3
    assert voice(build(MIXED, FULL), "mean") == (pytest.approx(2 / 3),)


def test_the_weight_is_a_sum_and_the_contribution_a_part_of_the_mean(build):
    # weight 0.6 of 1.0; 0.6 x 2 / 3 = 0.4
    assert voice(build(MIXED, FULL), "weight, contribution") == pytest.approx((0.6, 0.4))


def test_criteria_without_a_category_form_one(build):
    found = (
        build(MIXED, FULL).execute("select category, weight, mean from category_scores order by category").fetchall()
    )
    assert found[0] == ("(none)", pytest.approx(0.4), 1.0)


@pytest.mark.parametrize(
    ("missing", "n", "mean"),
    # warmth is unscored: null; skip: 0.4 x 0.5 / 0.4 = 0.5; zero: (0.4 x 0.5 + 0) / 0.6 = 1 / 3
    [("null", 0, None), ("skip", 1, 0.5), ("zero", 1, pytest.approx(1 / 3))],
)
def test_a_missing_score_counts_by_the_rubrics_policy(build, missing, n, mean):
    connection = build(MIXED, {"o": {"tone": 0.5, "warmth": None, "facts": 1.0}}, missing=missing)
    assert voice(connection, "n, mean, coverage_rate") == (n, mean, float(n))


@pytest.mark.parametrize(("missing", "n"), [("null", 0), *matrix([("skip", 0), ("zero", 1)])])
def test_a_category_without_any_verdict_of_an_output(build, missing, n):
    assert voice(build(MIXED, {"o": {"facts": 1.0}}, missing=missing), "output_count, n") == (1, n)


@pytest.mark.nightly
def test_a_missing_score_in_one_category_does_not_affect_the_other(build):
    connection = build(MIXED, {"o": {"tone": 0.5, "warmth": 1.0, "facts": None}})
    assert voice(connection, "n") == (1,)


def test_the_interval_is_over_outputs(build):
    # per output 0.4 and 0.6: mean 0.5, sd 0.1414214
    expected = score_interval([0.4, 0.6])
    scores = {"o": {"tone": 0.4, "warmth": 0.4}, "p": {"tone": 0.6, "warmth": 0.6}}
    found = voice(build(MIXED, scores), "n, mean, sd, ci_low, ci_high")
    assert found == pytest.approx((2, 0.5, 0.1414214, expected.low, expected.high))


def test_the_pass_rate_requires_every_threshold_and_gate_of_the_category(build):
    criteria = {
        "tone": {"category": "voice", "threshold": 0.5},
        "clean": {"category": "voice", "weight": 0.0, "is_gate": True},
    }
    # met: the first; not met: the second and third; unknown: the fourth. 1 of 3
    scores = [(0.5, 1.0), (0.4, 1.0), (None, 0.0), (1.0, None)]
    connection = build(criteria, {f"o{i}": {"tone": tone, "clean": clean} for i, (tone, clean) in enumerate(scores)})
    assert voice(connection, "pass_rate") == (pytest.approx(1 / 3),)


def test_a_category_without_thresholds_and_gates_has_no_pass_rate(build):
    assert voice(build(MIXED, FULL), "pass_rate") == (None,)


@pytest.mark.nightly
def test_a_category_with_only_gates_shows_their_mean_without_a_weight(build):
    criteria = {name: {"category": "voice", "weight": 0.0, "is_gate": True} for name in ("safe", "legal")}
    # (1 + 0) / 2
    connection = build(criteria, {"o": {"safe": 1.0, "legal": 0.0}})
    assert voice(connection, "mean, pass_rate, weight, contribution") == (0.5, 0.0, None, None)


@pytest.mark.nightly
def test_a_gate_among_weighted_criteria_does_not_count_in_the_mean(build):
    criteria = {"tone": {"category": "voice"}, "clean": {"category": "voice", "weight": 0.0, "is_gate": True}}
    assert voice(build(criteria, {"o": {"tone": 0.8, "clean": 0.0}}), "mean") == (0.8,)


def test_a_category_of_penalties_has_no_mean_and_lowers_that_of_the_run(build):
    criteria = {
        "met": {"weight": 4.0},
        "rude": {"category": "voice", "weight": -1.0},
        "curt": {"category": "voice", "weight": -1.0},
    }
    # one of two equal penalties: weight -2 / 4, of which half is lost; 1 - 0.25
    connection = build(criteria, {"o": {"met": 1.0, "rude": 1.0, "curt": 0.0}})
    assert voice(connection, "n, mean, ci_low, p50, weight, contribution") == (0, None, None, None, -0.5, -0.25)
    assert connection.execute("select mean from run_scores").fetchone() == (0.75,)


def test_an_output_with_penalties_only_in_a_category_is_not_in_its_mean(build):
    # of HealthBench: a has points and a penalty there, (4 - 1) / 4; b has the penalty alone, c brings its own points
    own = {
        "a": {"fair": {"category": "voice", "weight": 4.0}, "rude": {"category": "voice", "weight": -1.0}},
        "b": {"rude": {"category": "voice", "weight": -1.0}},
        "c": {"fair": {"category": "voice", "weight": 4.0}},
    }
    scores = {"a": {"fair": 1.0, "rude": 1.0}, "b": {"rude": 1.0}, "c": {"fair": 1.0}}
    connection = build(
        {"met": {"weight": 1.0}}, {name: {"met": 1.0, **found} for name, found in scores.items()}, own=own
    )
    assert voice(connection, "output_count, n, mean") == (3, 2, 0.875)


def test_penalties_of_the_rubric_reach_below_points_of_the_row(build):
    # one category: the row gives a point, the rubric takes two, so the least is -2 and the interval reaches below 0
    criteria = {"met": {"weight": 1.0}, "rude": {"category": "voice", "weight": -2.0}}
    names = [f"o{place}" for place in range(4)]
    own = {name: {"fair": {"category": "voice", "weight": 1.0}} for name in names}
    scores = {name: {"met": 1.0, "fair": 1.0, "rude": float(place < 2)} for place, name in enumerate(names)}
    connection = build(criteria, scores, own=own, outputs={name: {"case_id": name} for name in names})
    mean, low, high = voice(connection, "mean, ci_low, ci_high")
    assert mean == 0 and -2 <= low < -1 < 0.9 < high <= 1  # scores -1, -1, 1, 1 of a range of -2..1


def test_a_penalty_among_positive_weights_is_not_in_the_denominator(build):
    criteria = {
        "kind": {"category": "voice", "weight": 2.0},
        "rude": {"category": "voice", "weight": -1.0},
        "met": {"weight": 2.0},
    }
    # (2 - 1) / 2 = 0.5; of the run's 4 points 2: 0.25
    connection = build(criteria, {"o": {"kind": 1.0, "rude": 1.0, "met": 1.0}})
    assert voice(connection, "mean, weight, contribution") == (0.5, 0.5, 0.25)


@pytest.mark.nightly
def test_no_checkpoint_is_a_group_of_its_own(build):
    connection = build(MIXED, {**FULL, "p": FULL["o"]}, outputs={"p": {"checkpoint": "s1"}})
    found = connection.execute(
        "select checkpoint, n from category_scores where category = 'voice' order by all"
    ).fetchall()
    assert found == [("s1", 1), (None, 1)]
