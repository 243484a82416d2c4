"""rubrics/statistics/unpaired: Welch's test, and its form for cases of several outputs."""

import numpy as np
import pytest
from scipy import stats

from gradebook.rubrics.statistics.intervals import measure_mean
from gradebook.rubrics.statistics.unpaired import LEAST_CASES, measure_unpaired


def test_independent_scores_get_the_welch_test_of_scipy():
    rng = np.random.default_rng(3)
    a, b = rng.beta(8, 2, 70), rng.beta(4, 3, LEAST_CASES)
    found = measure_unpaired(a, b, np.arange(70), 70 + np.arange(LEAST_CASES))
    expected = stats.ttest_ind(b, a, equal_var=False)
    interval = expected.confidence_interval(0.95)
    known = (found.p, found.diff_low, found.diff_high)
    assert known == pytest.approx((expected.pvalue, interval.low, interval.high), rel=1e-9)
    assert (found.n, found.case_count, found.better_count) == (120, 120, 0)


def test_cases_on_both_sides_make_it_the_paired_comparison():
    rng = np.random.default_rng(4)
    cases = np.repeat(np.arange(60), 3)
    a = np.clip(rng.random(60)[cases] * 0.7 + 0.3 * rng.random(180), 0, 1)
    b = np.clip(a + rng.normal(0.05, 0.1, 180), 0, 1)
    found = measure_unpaired(a, b, cases, cases)
    paired = measure_mean(b - a, cases)
    t = stats.t(2 * 59).ppf(0.975)  # Welch counts the cases of both sides
    assert found.diff_high is not None and found.mean_diff is not None
    assert found.diff_high - found.mean_diff == pytest.approx(t * paired.standard_error, rel=0.02)


def test_few_cases_on_a_side_have_a_difference_but_no_interval():
    found = measure_unpaired(np.ones(9), np.zeros(80), np.arange(9), 9 + np.arange(80))
    assert (found.mean_diff, found.diff_low, found.p) == (-1.0, None, None)
