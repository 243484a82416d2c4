"""rubrics/statistics/calibration: the corrected mean of one criterion, and the paired error without ratings."""

import numpy as np
import pytest
from scipy.special import stdtrit

from gradebook.rubrics.statistics.calibration import (
    LEAST_RATED_CASES,
    CorrectedSum,
    Rated,
    Reach,
    Scored,
    corrected_mean,
    corrected_sum,
)
from gradebook.rubrics.statistics.intervals import DIFFERENCES, measure_mean

CASES = np.arange(200)


def rated(rng, n, kindness=0.0):
    """Ratings of the first n of 200 outputs, of a judge that is too kind."""
    ratings = rng.beta(6, 3, 200)
    judged = np.clip(ratings + kindness + rng.normal(0, 0.05, 200), 0, 1)
    return Rated(ratings[:n], judged[:n], judged[n:], CASES[:n], CASES[n:]), ratings


def test_one_criterion_has_its_corrected_mean():
    part, _ = rated(np.random.default_rng(1), 60, 0.2)
    found = corrected_sum([(1.0, part)], 200)
    assert found.value == pytest.approx(corrected_mean(part).value, abs=1e-12)


def test_a_difference_without_corrections_has_the_paired_standard_error():
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 90))
    cases = np.arange(90) // 3
    sums = [corrected_sum([(1.0, Scored(scores, cases))], 30) for scores in (a, b)]
    difference = sums[1].minus(sums[0])
    assert difference.standard_error == pytest.approx(measure_mean(b - a, cases).standard_error, rel=1e-9)


def test_a_judge_that_favours_one_model_is_corrected_and_few_ratings_have_no_interval():
    rng = np.random.default_rng(3)
    fair, kind = rated(rng, 100), rated(rng, 100, 0.3)
    truth = kind[1].mean() - fair[1].mean()
    sums = [corrected_sum([(1.0, part)], 200) for part, _ in (fair, kind)]
    interval = sums[1].minus(sums[0]).interval(DIFFERENCES)
    assert interval is not None and interval.low < truth < interval.high < 0.1
    few, _ = rated(rng, LEAST_RATED_CASES - 1)
    assert corrected_sum([(1.0, few)], 200).interval(DIFFERENCES) is None


def test_a_variance_that_two_cases_make_has_few_degrees_of_freedom():
    # Two of 200 cases make all of it: kurtosis 100, so 2 / (1/2 - 1/200) = 4.04 degrees of freedom, and not 99.
    errors = np.repeat([0.03, 0.0], [2, 198])
    interval = CorrectedSum(0.0, errors, (Reach(100, 0.5, 0.5),)).interval(DIFFERENCES)
    assert interval.low == pytest.approx(-stdtrit(2 / 0.495, 0.975) * 0.03 * 2**0.5)
    assert interval.high > -interval.low  # two cases that all go one way


def test_a_judge_that_was_right_in_all_rated_cases_is_not_certain():
    # Ratings and judge are about 0.8 in 60 rated cases: 1 - 0.025^(1/60) = 6.0% of others may have 0 beside a 1.
    judged = 0.8 + np.tile([-0.001, 0.001], 100)
    part = Rated(judged[:60], judged[:60], judged[60:], CASES[:60], CASES[60:])
    found = corrected_sum([(0.5, part)], 200)
    share = 1 - 0.025 ** (1 / 60)
    interval = found.interval(DIFFERENCES)
    assert interval.low == pytest.approx(0.4 - 0.5 * share, abs=2e-3)  # the judge has nearly all the weight
    turned = corrected_sum([], 200).minus(found).interval(DIFFERENCES)
    assert (turned.low, turned.high) == pytest.approx((-interval.high, -interval.low), abs=1e-12)
