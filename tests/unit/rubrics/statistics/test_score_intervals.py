"""Exact intervals on the effective sample size: rates as scipy's binomial test, scores between t and a rate."""

from math import isnan

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from gradebook.rubrics.statistics.intervals import Interval, Means, student_t
from gradebook.rubrics.statistics.means import measure_scores, score_interval, worth_ends

FEW_LARGE = np.repeat(np.arange(50), [20] * 5 + [1] * 45)


def ends(found):
    return found.low, found.high


def measures(values):
    found = measure_scores(values)
    each = (found.n, found.unit_count, found.mean, found.sd, found.standard_error, found.df)
    return Means(*(np.array([float(one)]) for one in each))


@pytest.mark.parametrize(("met_count", "n"), [(0, 20), (1, 29), (7, 10), (199, 200), (3, 3)])
def test_a_rate_has_the_interval_of_clopper_and_pearson(met_count, n):
    expected = binomtest(met_count, n).proportion_ci(method="exact")
    found = score_interval(np.arange(n) < met_count)
    assert ends(found) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_scores_of_levels_are_worth_more_trials_than_a_rate_of_their_mean():
    # mean 0.75, m (1 - m) = 0.1875, variance 0.0625: share 1/3
    # quantile^2 = 2.3646^2 x (7/8 x 0.8289^2 / 3 + 2/3) = 4.8479; SE^2 = 0.0625 x 8/7 / 8 = 0.0089286
    # worth: 0.1875 / 0.0089286 x 1.9600^2 / 4.8479 = 16.640
    expected = beta.ppf(0.025, 0.75 * 16.64, 0.25 * 16.64 + 1), beta.ppf(0.975, 0.75 * 16.64 + 1, 0.25 * 16.64)
    one = [np.array([each]) for each in (8.0, 8.0, 0.75, 0.25 * np.sqrt(8 / 7), 0.0944911, 7.0)]
    assert [end.item() for end in worth_ends(Means(*one))] == pytest.approx(expected, abs=1e-4)


def test_scores_close_together_have_nearly_the_interval_of_student():
    values = 0.5 + np.linspace(-0.01, 0.01, 6)
    found = [end.item() for end in worth_ends(measures(values))]
    assert found == pytest.approx(ends(student_t(values)), abs=2e-4)


def test_so_many_trials_that_the_exact_interval_is_the_normal_one():
    values = 0.5 + np.linspace(-1e-5, 1e-5, 50)
    found = [end.item() for end in worth_ends(measures(values))]
    assert found == pytest.approx(ends(student_t(values)), rel=1e-9)


def test_scores_close_together_do_not_show_rare_bad_ones():
    # Of 50 scores of about 0.95 none is bad; 1 - 0.025^(1/50) = 7.1% of further ones may be 0, and as many 1.
    values = 0.95 + np.linspace(-0.01, 0.01, 50)
    assert ends(score_interval(values)) == pytest.approx((0.95 * 0.025 ** (1 / 50), 1 - 0.05 * 0.025 ** (1 / 50)))


def test_a_rare_bad_score_has_the_exact_interval_of_two_values():
    # one of 100 scores is 0.15, the others 0.95: 0.95 - 0.8 x Clopper and Pearson's upper end of 1 of 100
    found = score_interval(np.where(np.arange(100) < 1, 0.15, 0.95))
    assert found.low == pytest.approx(0.95 - 0.8 * binomtest(1, 100).proportion_ci(method="exact").high, abs=5e-5)


def test_the_interval_moves_with_the_bounds_of_the_values():
    values = np.array([0.2, 0.4, 1.0, 0.9])
    found = score_interval(3 * values - 2, bounds=Interval(-2.0, 1.0))
    assert ends(found) == pytest.approx(tuple(3 * end - 2 for end in ends(score_interval(values))))


def test_equal_cases_count_as_one_trial_each():
    expected = binomtest(12, 12).proportion_ci(method="exact")
    assert score_interval(np.ones(24), np.repeat(np.arange(12), 2)).low == pytest.approx(expected.low, abs=1e-9)


def test_large_cases_that_happen_to_be_alike_do_not_make_the_interval_narrow():
    # Five cases with 100 of 145 outputs all pass, 9 of the 45 other outputs fail: cases differ, outputs within do not.
    values = np.where(FEW_LARGE < 5, 1.0, (FEW_LARGE % 5 > 0).astype(float))
    # As if each case were one value: 145^2 / (5 x 20^2 + 45) = 10.3 values of a rate of 0.938.
    expected = np.sqrt(136 / 145 * 9 / 145 / 10.3)
    assert measure_scores(values, FEW_LARGE).standard_error == pytest.approx(expected, rel=0.01)


def test_cases_without_correlation_keep_the_cluster_robust_error():
    values = np.tile([0.0, 1.0], 20)
    clusters = np.repeat(np.arange(20), 2)
    assert measure_scores(values, clusters).standard_error == pytest.approx(np.sqrt(0.25 / 39), rel=1e-9)


@pytest.mark.parametrize(("values", "clusters"), [([], None), ([1.0], None), ([0.2, 0.9], ["c", "c"])])
def test_one_value_or_case_has_no_interval(values, clusters):
    assert isnan(score_interval(values, clusters).low)
