"""output_scores: arithmetic of an output's score and its bounds."""

from typing import Any

import duckdb
import numpy as np
import pytest

WEIGHTS = {"tone": {"weight": 0.5}, "facts": {"weight": 0.3}, "length": {"weight": 0.2}}
PENALTY = {"met": {"weight": 2.0}, "also": {"weight": 1.0}, "rude": {"weight": -1.0}}
ONLY_GATES = {"safe": {"weight": 0.0, "is_gate": True}}


def scores_of(connection: duckdb.DuckDBPyConnection) -> Any:
    return connection.execute("select score, score_low, score_high from output_scores").fetchone()


def uniform_of(connection: duckdb.DuckDBPyConnection) -> Any:
    return connection.execute("select uniform_score from output_scores").fetchall()[0][0]


def test_the_score_is_the_weighted_mean_of_the_guide(build):
    # 0.8 x 0.5 + 0.6 x 0.3 + 1.0 x 0.2 = 0.4 + 0.18 + 0.2 = 0.78
    connection = build(WEIGHTS, {"o": {"tone": 0.8, "facts": 0.6, "length": 1.0}})
    assert scores_of(connection) == (0.78, 0.78, 0.78)


def test_weights_need_not_sum_to_one(build):
    # (5 x 0.8 + 3 x 0.6 + 2 x 1.0) / 10 = 7.8 / 10
    criteria = {name: {"weight": 10 * row["weight"]} for name, row in WEIGHTS.items()}
    assert scores_of(build(criteria, {"o": {"tone": 0.8, "facts": 0.6, "length": 1.0}})) == (0.78, 0.78, 0.78)


def test_the_uniform_score_is_the_plain_mean(build):
    # (0.8 + 0.6 + 1.0) / 3 = 0.8
    assert uniform_of(build(WEIGHTS, {"o": {"tone": 0.8, "facts": 0.6, "length": 1.0}})) == 0.8


@pytest.mark.parametrize("missing", ["null", None])
def test_a_missing_score_leaves_the_score_open_between_its_bounds(build, missing):
    # facts (0.3) is unscored: low 0.4 + 0.2 = 0.6, high 0.6 + 0.3 = 0.9
    connection = build(WEIGHTS, {"o": {"tone": 0.8, "facts": None, "length": 1.0}}, missing=missing)
    assert scores_of(connection) == (None, 0.6, 0.9)


def test_a_missing_score_leaves_the_uniform_score_open(build):
    assert uniform_of(build(WEIGHTS, {"o": {"tone": 0.8, "facts": None, "length": 1.0}})) is None


def test_an_absent_verdict_row_is_a_missing_score(build):
    # as with an unscored verdict: low 0.6, high 0.9
    assert scores_of(build(WEIGHTS, {"o": {"tone": 0.8, "length": 1.0}})) == (None, 0.6, 0.9)


def test_a_skipped_missing_score_also_leaves_the_denominator(build):
    # (0.4 + 0.2) / (0.5 + 0.2) = 6 / 7
    connection = build(WEIGHTS, {"o": {"tone": 0.8, "facts": None, "length": 1.0}}, missing="skip")
    assert scores_of(connection) == pytest.approx((6 / 7,) * 3)


def test_a_skipped_missing_score_also_leaves_the_uniform_denominator(build):
    # (0.8 + 1.0) / 2 = 0.9
    assert uniform_of(build(WEIGHTS, {"o": {"tone": 0.8, "length": 1.0}}, missing="skip")) == 0.9


def test_a_missing_score_that_counts_zero_only_loses_its_points(build):
    # 0.4 + 0 + 0.2 = 0.6
    connection = build(WEIGHTS, {"o": {"tone": 0.8, "facts": None, "length": 1.0}}, missing="zero")
    assert scores_of(connection) == (0.6, 0.6, 0.6)


@pytest.mark.parametrize(
    ("missing", "expected"), [("null", (None, 0.0, 1.0)), ("skip", (None, None, None)), ("zero", (0.0, 0.0, 0.0))]
)
def test_an_output_without_verdicts_is_scored_by_the_policy_for_missing_scores(build, missing, expected):
    assert scores_of(build(WEIGHTS, {"o": {}}, missing=missing)) == expected


def test_a_penalty_lowers_the_points_but_not_the_denominator(build):
    # (2 x 1 + 1 x 0 - 1 x 1) / (2 + 1) = 1 / 3
    connection = build(PENALTY, {"o": {"met": 1.0, "also": 0.0, "rude": 1.0}})
    assert scores_of(connection) == pytest.approx((1 / 3,) * 3)


def test_an_output_s_score_is_not_clipped_at_zero(build):
    # (0 + 0 - 1) / 3
    assert scores_of(build(PENALTY, {"o": {"met": 0.0, "also": 0.0, "rude": 1.0}}))[0] == pytest.approx(-1 / 3)


def test_an_unscored_penalty_can_only_lower_the_score(build):
    # met 1, also 0: 2 / 3 without the penalty, 1 / 3 with it
    connection = build(PENALTY, {"o": {"met": 1.0, "also": 0.0, "rude": None}})
    assert scores_of(connection) == (None, pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_the_uniform_score_has_the_sign_of_a_penalty(build):
    # (1 + 0 - 1) / 2 = 0
    assert uniform_of(build(PENALTY, {"o": {"met": 1.0, "also": 0.0, "rude": 1.0}})) == 0.0


def test_skipping_all_but_a_penalty_leaves_nothing_to_score(build):
    assert scores_of(build(PENALTY, {"o": {"rude": 1.0}}, missing="skip")) == (None, None, None)


@pytest.mark.parametrize("missing", ["null", "skip", "zero"])
def test_a_rubric_with_only_gates_has_no_score(build, missing):
    assert scores_of(build(ONLY_GATES, {"o": {"safe": 1.0}}, missing=missing)) == (None, None, None)


def test_a_gate_has_no_weight_in_the_score(build):
    # only tone: 0.5 x 0.8 / 0.5 = 0.8
    assert scores_of(build({"tone": {"weight": 0.5}, **ONLY_GATES}, {"o": {"tone": 0.8, "safe": 0.0}}))[0] == 0.8


def test_unscored_counts_gates_and_weighted_criteria_but_not_those_of_weight_zero(build):
    # tone has no row, safe is unscored: 2; note has weight 0
    criteria = {"tone": {}, "note": {"weight": 0.0}, **ONLY_GATES}
    connection = build(criteria, {"o": {"note": None, "safe": None}})
    assert connection.execute("select unscored_count from output_scores").fetchall() == [(2,)]


def test_an_output_has_its_model_and_checkpoint(build):
    connection = build(
        {"tone": {}}, {"o": {"tone": 1.0}}, outputs={"o": {"case_id": "c", "checkpoint": "s1", "sample_index": 3}}
    )
    found = connection.execute("select run_id, output_id, case_id, model, checkpoint, sample_index from output_scores")
    assert found.fetchall() == [("run", "o", "c", "m", "s1", 3)]


def direct_score(weights: list[float], scores: list[float | None], missing: str) -> tuple[float | None, float, float]:
    """Definition of the score in plain Python: sums over all criteria, for each policy for missing scores."""

    def total(penalty_gap: float, weight_gap: float) -> float:
        gaps = [weight_gap if weight > 0 else penalty_gap for weight in weights]
        return sum(w * (gap if s is None else s) for w, s, gap in zip(weights, scores, gaps, strict=True))

    base = sum(w for w, s in zip(weights, scores, strict=True) if w > 0 and (missing != "skip" or s is not None))
    if missing == "null" and None in scores:
        return None, total(1, 0) / base, total(0, 1) / base
    return (total(0, 0) / base,) * 3


@pytest.mark.parametrize("missing", ["null", "skip", "zero"])
def test_random_scores_agree_with_the_definition(build, missing):
    rng = np.random.default_rng(7)
    weights = {f"c{index}": float(weight) for index, weight in enumerate([0.7, 1.9, 0.1, -0.4, 2.0])}
    drawn = {
        f"o{n}": {name: None if rng.random() < 0.2 else float(rng.random()) for name in weights} for n in range(60)
    }
    scores = {
        name: row | {"c4": 0.5} for name, row in drawn.items()
    }  # c4 is always scored, so that skipping leaves a criterion
    connection = build({name: {"weight": weight} for name, weight in weights.items()}, scores, missing=missing)
    found = connection.execute("select output_id, score, score_low, score_high from output_scores").fetchall()
    expected = {name: direct_score([*weights.values()], [*row.values()], missing) for name, row in scores.items()}
    assert {name: pytest.approx(expected[name]) for name, *_ in found} == {name: tuple(row) for name, *row in found}


def test_a_uniform_score_that_skips_missing_scores_divides_by_the_positive_criteria_that_have_a_score(build):
    # one 0.5, two is not scored, rude 1.0, safe is a gate: (0.5 - 1.0) / 1; of q all are scored: (0.5 + 1.0 - 0) / 2
    criteria = {"one": {"weight": 3.0}, "two": {"weight": 1.0}, "rude": {"weight": -2.0}, "safe": {"is_gate": True}}
    scores = {
        "o": {"one": 0.5, "two": None, "rude": 1.0, "safe": 1.0},
        "q": {"one": 0.5, "two": 1.0, "rude": 0.0, "safe": 1.0},
    }
    connection = build(criteria, scores, missing="skip")
    found = connection.execute("select uniform_score from output_scores order by output_id").fetchall()
    assert found == [(-0.5,), (0.75,)]
