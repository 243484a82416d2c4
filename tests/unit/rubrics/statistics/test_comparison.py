"""All figures of a comparison together: they agree, and they say where they do not."""

import numpy as np
import pytest
import scipy.stats
from scipy.stats import binomtest

from gradebook.rubrics.statistics.comparison import measure_pairs, measure_passes
from gradebook.rubrics.statistics.power import deciding_effect

OWN_CASES = np.arange(40)
RNG = np.random.default_rng(5)
OF_A = RNG.choice([0.0, 0.5, 1.0], 40)
OF_B = RNG.choice([0.0, 0.5, 1.0], 40, p=[0.1, 0.3, 0.6])


def test_the_figures_are_those_of_the_differences():
    found = measure_pairs(OF_A, OF_B, OWN_CASES, resample_count=2_000)
    assert found.mean_diff == pytest.approx(found.mean_b - found.mean_a)
    of_t = scipy.stats.ttest_1samp(OF_B - OF_A, 0.0).pvalue
    assert of_t < found.p < 3 * of_t  # a little skewed
    assert found.diff_low == pytest.approx(found.boot_low, abs=0.03)


def test_copies_of_the_pairs_within_their_cases_tell_no_more():
    once = measure_pairs(OF_A, OF_B, OWN_CASES)
    copied = measure_pairs(np.repeat(OF_A, 3), np.repeat(OF_B, 3), np.repeat(OWN_CASES, 3))
    assert (copied.n, copied.case_count) == (120, 40)
    assert (copied.p, copied.diff_low) == (pytest.approx(once.p), pytest.approx(once.diff_low))
    assert copied.detectable_diff == pytest.approx(once.detectable_diff)


def test_no_pair_tells_nothing():
    found = measure_pairs([], [], np.empty(0, dtype=np.int64), resample_count=10)
    assert {found.mean_diff, found.p, found.p_wilcoxon, found.diff_low, found.boot_low, found.better_rate} == {None}


def test_one_pair_has_a_difference_and_no_interval():
    found = measure_pairs([0.0], [1.0], np.zeros(1, dtype=np.int64))
    assert (found.mean_diff, found.diff_low, found.p, found.detectable_diff) == (1.0, None, None, None)


def test_without_resamples_there_is_no_bootstrap():
    assert measure_pairs(OF_A, OF_B, OWN_CASES).boot_low is None


def test_differences_that_are_all_one_tell_no_detectable_one():
    found = measure_pairs(np.full(12, 0.3), np.full(12, 0.1), np.arange(12))
    assert (found.detectable_diff, found.p) == (None, pytest.approx(2 * 1.2**-12))  # the share beyond 0.2 / 1.2


def test_the_detectable_difference_is_that_of_gradebook_power_with_the_same_sd():
    # 50 cases can't show a loss in 7.1% of cases, whatever their spread: t would promise 0.02
    found = measure_pairs(np.zeros(50), np.random.default_rng(1).normal(0.0, 0.05, 50), np.arange(50))
    assert found.detectable_diff == pytest.approx(deciding_effect(found.sd_diff, 50))
    assert found.detectable_diff > 0.07


def test_passes_are_counted_both_ways():
    found = measure_passes([1, 1, 0, 0, 1], [1, 0, 1, 1, 1], np.arange(5))
    assert (found.gained_count, found.lost_count, found.pass_rate_a, found.pass_rate_b) == (2, 1, 0.6, 0.8)
    assert found.p_mcnemar == 1.0


def test_the_interval_of_passes_is_that_of_differences():
    # 1 of 160 lost: Clopper and Pearson, 0.0001582 to 0.034308
    found = measure_passes(np.ones(160), np.arange(160) > 0, np.arange(160))
    assert found.pass_diff_low == pytest.approx(-binomtest(1, 160).proportion_ci(method="exact").high, abs=1e-9)
