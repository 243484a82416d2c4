"""Figures of a sample drawn by stratum in SQL, compared with gradebook.rubrics.statistics.strata."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.intervals import Interval, Mean
from gradebook.rubrics.statistics.means import score_interval_of
from gradebook.rubrics.statistics.strata import Strata, measure_strata
from tests.support.nightly import matrix

TONE = {"tone": {"threshold": 0.5}}
# Cases of three strata: 6 of 60, 4 of 8 and the only one.
NAMES = np.array(["big"] * 6 + ["small"] * 4 + ["alone"])
RATES = {"big": 6 / 60, "small": 4 / 8, "alone": 1.0}
SIZES = np.array([1, 2, 3, 1, 1, 2, 1, 1, 4, 1, 2])  # outputs of each case
CASES = np.repeat(np.arange(NAMES.size), SIZES)


def strata_of(cases: np.ndarray) -> Strata:
    _, codes = np.unique(NAMES, return_inverse=True)
    weights = np.array([1 / RATES[name] for name in NAMES])
    return Strata(codes[cases].astype(np.int64), weights[cases] / SIZES[cases], 69.0)


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    return np.random.default_rng(8).choice([0.0, 0.25, 0.5, 1.0], CASES.size)


@pytest.fixture
def built(build, scores):
    outputs = {f"o{index}": {"case_id": f"c{case}", "sample_index": index} for index, case in enumerate(CASES)}
    given = {f"o{index}": {"tone": score} for index, score in enumerate(scores)}
    weights = tuple(
        {"case_id": f"c{case}", "stratum": name, "inclusion_rate": RATES[name]} for case, name in enumerate(NAMES)
    )
    return build(TONE, given, outputs=outputs, case_weights=weights, pass_threshold=0.75)


def ends(found: Mean) -> Interval:
    return score_interval_of(found)


@pytest.mark.parametrize("table", ["run_scores", *matrix(["criterion_scores", "category_scores"])])
def test_means_and_rates_are_weighted_with_the_interval_of_python(built, scores, table):
    found = built.execute(f"select mean, sd, ci_low, ci_high, pass_rate, pass_low, pass_high from {table}").fetchone()
    strata = strata_of(CASES)
    mean = measure_strata(scores, strata, CASES, of_scores=True)
    passed = measure_strata(scores >= (0.75 if table == "run_scores" else 0.5), strata, CASES, of_scores=True)
    expected = (mean.mean, mean.sd, ends(mean).low, ends(mean).high, passed.mean, ends(passed).low, ends(passed).high)
    assert found == pytest.approx(expected, abs=1e-7)
    assert abs(mean.mean - scores.mean()) > 0.01  # the weights matter


def test_the_distribution_and_the_median_are_those_of_the_weights(built, scores):
    strata = strata_of(CASES)
    shares = dict(built.execute("select score, share from score_distribution").fetchall())
    for score, share in shares.items():
        assert share == pytest.approx(strata.weights[scores <= score].sum() / strata.weights.sum())
    median = min(score for score, share in shares.items() if share >= 0.5)
    assert built.execute("select p50 from run_scores").fetchone() == pytest.approx((median,))


def test_an_output_names_its_stratum_and_rate(built):
    rows = built.execute("select distinct case_id, stratum, inclusion_rate from output_scores").fetchall()
    assert sorted(rows) == sorted((f"c{case}", name, RATES[name]) for case, name in enumerate(NAMES.tolist()))
