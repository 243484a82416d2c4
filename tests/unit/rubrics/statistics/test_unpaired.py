"""rubrics/statistics/comparison: two intervals of means as one, also for cases of several outputs."""

import numpy as np
import pytest
from scipy import stats

from gradebook.rubrics.statistics.comparison import measure_unpaired
from gradebook.rubrics.statistics.intervals import measure_mean
from gradebook.rubrics.statistics.means import score_interval


def compare(a, b):
    return measure_unpaired(a, b, np.arange(len(a)), len(a) + np.arange(len(b)))


def passes(failed_count, n):
    return (np.arange(n) >= failed_count).astype(float)


def test_rates_have_the_ends_of_clopper_and_pearson_combined_by_mover():
    a, b = passes(3, 40), passes(9, 60)
    of_a, of_b = (stats.binomtest(*each).proportion_ci(method="exact") for each in ((37, 40), (51, 60)))
    down = np.hypot(51 / 60 - of_b.low, of_a.high - 37 / 40)
    up = np.hypot(of_b.high - 51 / 60, 37 / 40 - of_a.low)
    found = compare(a, b)
    expected = (51 / 60 - 37 / 40 - down, 51 / 60 - 37 / 40 + up)
    assert (found.diff_low, found.diff_high) == pytest.approx(expected, abs=1e-9)
    assert (found.n, found.case_count, found.better_count) == (100, 100, 0)


def test_scores_far_from_the_ends_have_nearly_the_interval_of_welch():
    rng = np.random.default_rng(3)
    a, b = rng.beta(2, 2, 400), rng.beta(3, 2, 300)
    interval = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    found = compare(a, b)
    assert (found.diff_low, found.diff_high) == pytest.approx((interval.low, interval.high), abs=1e-3)


@pytest.mark.parametrize(("of_a", "of_b"), [((0, 200), (8, 1_000)), ((0, 200), (0, 1_000)), ((1, 2), (1, 2))])
def test_a_side_without_a_failure_is_not_certain(of_a, of_b):
    found = compare(passes(*of_a), passes(*of_b))
    assert found.diff_low < 0 <= found.diff_high
    assert found.p > 0.1  # Fisher: 0.37, 1 and 1
    assert (found.p == 1.0) == (found.mean_diff == 0.0)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.2, -0.3])
def test_p_is_the_level_at_which_the_interval_ends_at_zero(shift):
    rng = np.random.default_rng(6)
    a, b = np.clip(rng.normal([[0.5], [0.5 + shift]], 0.2, (2, 30)), 0, 1)
    found = compare(a, b)
    assert (found.p <= 0.05) == (found.diff_low > 0 or found.diff_high < 0)


def test_cases_on_both_sides_make_it_the_paired_comparison():
    rng = np.random.default_rng(4)
    cases = np.repeat(np.arange(60), 3)
    a = np.clip(rng.random(60)[cases] * 0.7 + 0.3 * rng.random(180), 0, 1)
    b = np.clip(a + rng.normal(0.05, 0.1, 180), 0, 1)
    found = measure_unpaired(a, b, cases, cases)
    paired = measure_mean(b - a, cases)
    t = stats.t(2 * 59).ppf(0.975)  # Welch counts the cases of both sides
    unseen = (1 - 0.025 ** (1 / 60)) * (1 - paired.mean)
    assert found.diff_high - found.mean_diff == pytest.approx(max(t * paired.standard_error, unseen), rel=0.02)


def test_a_case_on_a_side_has_a_difference_but_no_interval():
    found = compare(np.ones(1), np.zeros(80))
    assert (found.mean_diff, found.diff_low, found.p) == (-1.0, None, None)


def test_few_cases_have_the_width_of_few_cases():
    found = compare(np.ones(9), np.zeros(80))
    assert found.diff_high == pytest.approx(-1 + np.hypot(1 - score_interval(np.ones(9)).low, 1 - 0.025 ** (1 / 80)))
