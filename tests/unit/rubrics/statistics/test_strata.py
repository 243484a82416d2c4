"""Means and differences of cases drawn by stratum, where a stratum has few cases or few of them moved."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.comparison import measure_pairs
from gradebook.rubrics.statistics.intervals import measure_mean
from gradebook.rubrics.statistics.means import measure_difference
from gradebook.rubrics.statistics.strata import Strata, count_moved_by_stratum, measure_strata

TEN_OF_TWO = Strata(np.repeat(np.arange(10), 2), np.full(20, 50.0), 1_000.0)


def test_strata_of_two_equal_cases_are_not_without_variance():
    # Each stratum lost or kept both of its cases: within strata nothing varies, so all are one stratum.
    lost = np.repeat([-1.0, 0.0], [2, 18])
    found, plain = measure_strata(lost, TEN_OF_TWO), measure_mean(lost)
    assert (found.standard_error, found.mean) == pytest.approx((plain.standard_error, plain.mean))
    assert found.df == 19  # V^2 / (V^2 / (19 + 2)) - 2


def test_few_moved_cases_widen_the_interval_by_the_cases_and_not_by_the_degrees_of_freedom():
    # 5 strata of 10; 2 cases of one rose. By the rule of three of 50 cases, 1 - 0.025^(1/50) = 7.1% may have fallen.
    design = Strata(np.repeat(np.arange(5), 10), np.full(50, 20.0), 1_000.0)
    rose = np.zeros(50)
    rose[:2] = 0.5
    moved = count_moved_by_stratum(rose, design)
    assert (float(moved.risen), float(moved.units)) == pytest.approx((2, 50))
    found = measure_difference(measure_strata(rose, design), moved)
    assert found.low == pytest.approx(0.02 - (1 - 0.025 ** (1 / 50)) * 1.02)


def test_heavier_cases_count_for_fewer():
    # Kish: (4 x 1 + 4 x 3)^2 / (4 x 1 + 4 x 9) = 6.4
    design = Strata(np.repeat([0, 1], 4), np.repeat([1.0, 3.0], 4), 100.0)
    assert count_moved_by_stratum(np.zeros(8), design).units == pytest.approx(6.4)


def test_a_large_stratum_of_equal_scores_is_not_certain():
    # 32 good cases of a stratum of 90%, and 18 of 10% of which half are good. Half a case of 33 may be bad: the
    # variance is 0.9^2 x 1/66 x 65/66 / 32, beside 0.1^2 x 1/4 x 18/17 / 18 of the others.
    design = Strata(np.repeat([0, 1], [32, 18]), np.repeat([0.9 / 32, 0.1 / 18], [32, 18]), 1e12)
    scores = np.append(np.ones(32), np.repeat([0.0, 1.0], 9))
    found = measure_strata(scores, design, of_scores=True)
    assert found.standard_error**2 == pytest.approx(0.81 * 65 / 66**2 / 32 + 0.01 / 4 / 17, rel=1e-6)
    assert measure_strata(np.ones(50), design, of_scores=True).is_constant


def test_without_pairs_every_figure_is_unknown_as_it_is_without_strata():
    nothing, cases = np.zeros(0), np.zeros(0, dtype=np.int64)
    found = measure_pairs(nothing, nothing, cases, resample_count=100, strata=Strata(cases, nothing, 100.0))
    assert found == measure_pairs(nothing, nothing, cases, resample_count=100)
    assert (found.n, found.mean_diff, found.p, found.boot_low) == (0, None, None, None)
