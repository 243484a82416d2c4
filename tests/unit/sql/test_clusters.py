"""Intervals in SQL if a case has several outputs, compared with gradebook.rubrics.statistics."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.intervals import Interval, Means
from gradebook.rubrics.statistics.means import score_ends, score_interval, skewness_of
from gradebook.rubrics.statistics.strata import count_cases_once, measure_strata
from tests.support.nightly import matrix

TONE = {"tone": {"threshold": 0.5}}
PENALTY = {"met": {"weight": 1.0}, "rude": {"weight": -1.0}}


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """Scores of 12 cases with 1 to 5 outputs each: (output,)."""
    return np.random.default_rng(3).choice([0.0, 0.25, 0.5, 1.0], CASES.size)


CASES = np.repeat(np.arange(12), [1, 2, 3, 4, 5, 1, 1, 2, 5, 3, 1, 2])


def built(build, scores, column="case_id", **settings):
    """Run of one criterion, with outputs of `CASES`."""
    outputs = {f"o{index}": {column: f"c{case}"} for index, case in enumerate(CASES)}
    settings = {"weights": "outputs"} | settings
    return build(
        TONE, {f"o{index}": {"tone": score} for index, score in enumerate(scores)}, outputs=outputs, **settings
    )


def ends(connection, table, names="ci_low, ci_high"):
    return connection.execute(f"select {names} from {table}").fetchone()


@pytest.mark.parametrize("table", ["run_scores", *matrix(["criterion_scores", "category_scores"])])
def test_the_interval_on_a_mean_is_cluster_robust(build, scores, table):
    expected = score_interval(scores, CASES)
    assert ends(built(build, scores), table) == pytest.approx((expected.low, expected.high), abs=1e-8)


@pytest.mark.parametrize("table", ["criterion_scores", "category_scores"])
def test_the_interval_on_a_pass_rate_uses_the_effective_sample_size(build, scores, table):
    expected = score_interval(scores >= 0.5, CASES)
    assert ends(built(build, scores), table, "pass_low, pass_high") == pytest.approx(
        (expected.low, expected.high), abs=1e-8
    )


def test_the_interval_on_a_runs_pass_rate_uses_the_effective_sample_size(build, scores):
    expected = score_interval(scores >= 0.75, CASES)
    found = ends(built(build, scores, pass_threshold=0.75), "run_scores", "pass_low, pass_high")
    assert found == pytest.approx((expected.low, expected.high), abs=1e-8)


@pytest.mark.nightly
def test_scores_of_0_and_1_have_the_interval_of_a_rate_over_cases(build, scores):
    met = (scores >= 0.5).astype(float)
    expected = score_interval(met, CASES)
    assert ends(built(build, met), "run_scores") == pytest.approx((expected.low, expected.high), abs=1e-8)


def test_a_named_cluster_takes_precedence_over_the_case(build, scores):
    connection = built(build, scores, "cluster")
    assert ends(connection, "run_scores", "ci_low, cluster_count") == pytest.approx(
        (score_interval(scores, CASES).low, 12), abs=1e-8
    )


@pytest.mark.nightly
def test_a_case_and_a_cluster_of_the_same_name_are_different(build):
    outputs = {"a": {"case_id": "x"}, "b": {"case_id": "y", "cluster": "x"}}
    connection = build(TONE, {"a": {"tone": 0.25}, "b": {"tone": 0.5}}, outputs=outputs)
    assert ends(connection, "run_scores", "cluster_count") == (2,)


@pytest.mark.nightly
def test_equal_clusters_count_as_one_value_each(build):
    # 12 cases: 0.5 x 0.025 ** (1 / 12) = 0.3677
    assert ends(built(build, np.full(CASES.size, 0.5)), "run_scores")[0] == pytest.approx(0.3677, abs=1e-4)


def test_a_single_case_has_no_interval(build):
    outputs = {name: {"case_id": "one"} for name in "ab"}
    connection = build(TONE, {"a": {"tone": 0.2}, "b": {"tone": 0.4}}, outputs=outputs)
    assert ends(connection, "run_scores", "n, ci_low, ci_high, pass_low") == (2, None, None, None)


def test_groups_without_repeats_count_outputs(build):
    outputs = {"a": {"case_id": "x"}, "b": {"case_id": "x"}, "c": {"model": "k"}, "d": {"model": "k"}}
    scores = {"a": 0.2, "b": 0.4, "c": 0.25, "d": 0.35}
    connection = build(TONE, {name: {"tone": score} for name, score in scores.items()}, outputs=outputs)
    expected = score_interval([0.25, 0.35])
    found = connection.execute("select ci_low, ci_high from run_scores where model = 'k'").fetchone()
    assert found == pytest.approx((expected.low, expected.high), abs=1e-8)


def test_the_scores_of_a_points_rubric_reach_from_the_penalties_to_one(build, scores):
    outputs = {f"o{index}": {"case_id": f"c{case:02}"} for index, case in enumerate(CASES)}
    rows = {f"o{index}": {"met": score, "rude": float(index % 3 == 0)} for index, score in enumerate(scores)}
    points = np.array([row["met"] - row["rude"] for row in rows.values()])
    expected = score_interval(points, CASES, bounds=Interval(-1.0, 1.0))
    found = ends(build(PENALTY, rows, outputs=outputs, weights="outputs"), "category_scores")
    assert found == pytest.approx((expected.low, expected.high), abs=1e-8)


@pytest.mark.parametrize("missing_count", [0, 9])
@pytest.mark.parametrize("table", ["run_scores", "criterion_scores", *matrix(["category_scores"])])
def test_cases_with_unlike_numbers_of_outputs_count_once_each_as_their_means_do(build, scores, table, missing_count):
    scored = np.sort(np.random.default_rng(4).permutation(CASES.size)[missing_count:])
    cases = CASES[scored]
    case_count = np.unique(cases).size
    means = (np.bincount(cases, scores[scored]) / np.maximum(np.bincount(cases), 1))[np.unique(cases)]
    weighted = measure_strata(scores[scored], count_cases_once(cases), cases)
    fields = (scored.size, case_count, means.mean(), weighted.sd, means.std(ddof=1) / np.sqrt(case_count))
    fields = [np.array([float(field)]) for field in (*fields, case_count - 1)]
    low, high = score_ends(Means(*fields), skewness_of(means[None]))
    rows = [score if index in scored else None for index, score in enumerate(scores)]
    found = ends(built(build, rows, weights="cases"), table, "mean, ci_low, ci_high, cluster_count")
    assert found == pytest.approx((weighted.mean, low[0], high[0], case_count), abs=1e-9)
    assert weighted.mean == pytest.approx(means.mean())


def test_outputs_count_once_each_if_the_rubric_says_so(build, scores):
    assert ends(built(build, scores), "run_scores", "mean")[0] == pytest.approx(scores.mean())
