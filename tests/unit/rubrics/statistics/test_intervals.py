"""Intervals against published examples, and where there is too little to know."""

from math import isnan

import numpy as np
import pytest

from gradebook.rubrics.statistics.intervals import (
    DIFFERENCES,
    SCORES,
    Interval,
    constant_interval,
    measure_mean,
    rate_interval,
    student_t,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_examples_of_newcombe(successes, n, low, high):
    # Newcombe (1998), Two-sided confidence intervals for the single proportion, table I, method 3
    found = wilson(successes, n)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


def test_student_t_gives_the_interval_of_students_sleep_data():
    # Student (1908), additional hours of sleep: mean 1.58, t(9, 0.975) = 2.262, 0.70..2.46 as in R's t.test(paired)
    gained = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    found = student_t(gained)
    assert (found.low, found.high) == (pytest.approx(0.7001142, abs=1e-6), pytest.approx(2.4598858, abs=1e-6))


def test_clusters_of_one_value_are_no_clusters():
    values = [0.1, 0.5, 0.4, 0.9]
    assert student_t(values, clusters=list("dcab")).low == pytest.approx(student_t(values).low)


def test_equal_clusters_count_as_their_means():
    # means 0.25, 0.75, 0.5: t over three values
    found = student_t([0.0, 0.5, 0.5, 1.0, 0.5, 0.5], clusters=[1, 1, 2, 2, 3, 3])
    means = student_t([0.25, 0.75, 0.5])
    assert (found.low, found.high) == (pytest.approx(means.low), pytest.approx(means.high))


def test_the_standard_error_of_unequal_clusters_is_cr2():
    # mean 0.4; residual sums 0.2 (2 values) and -0.2 (3): sqrt(0.04 / (1 - 2/5) + 0.04 / (1 - 3/5)) / 5
    mean = measure_mean([0.5, 0.5, 0.0, 0.5, 0.5], ["a", "a", "b", "b", "b"])
    assert mean.standard_error == pytest.approx((0.04 / 0.6 + 0.04 / 0.4) ** 0.5 / 5)


def matrix_df(sizes: list[int]) -> float:
    """Bell and McCaffrey's degrees of freedom of a mean: (tr M)^2 / tr(M M), M = A (I - 11'/n) A', A row a cluster."""
    n = sum(sizes)
    members = np.repeat(np.eye(len(sizes)), sizes, axis=1)
    adjusted = members / (n * np.sqrt(1 - np.array(sizes) / n))[:, None]
    spread = adjusted @ (np.eye(n) - 1 / n) @ adjusted.T
    return float(np.trace(spread) ** 2 / np.trace(spread @ spread))


@pytest.mark.parametrize("sizes", [[1] * 50 + [50], [1] * 40 + [20] * 4, [2, 3], [1, 5, 9, 2, 2]])
def test_unequal_clusters_have_the_degrees_of_bell_and_mccaffrey(sizes):
    values = np.random.default_rng(1).normal(size=sum(sizes))
    mean = measure_mean(values, np.repeat(np.arange(len(sizes)), sizes))
    assert mean.df == pytest.approx(matrix_df(sizes))


@pytest.mark.parametrize("size", [1, 4])
def test_equal_clusters_have_one_degree_less_than_there_are(size):
    mean = measure_mean(np.arange(9.0 * size), np.repeat(np.arange(9), size))
    assert mean.df == 8.0 == pytest.approx(matrix_df([size] * 9))


@pytest.mark.parametrize("values", [[], [0.5]])
def test_under_two_values_nothing_is_known(values):
    assert not student_t(values, bounds=SCORES).is_known
    assert isnan(measure_mean(values).standard_error)


def test_one_cluster_knows_nothing_however_many_values_it_has():
    assert not student_t([0.1, 0.9, 0.5], clusters=["c"] * 3, bounds=SCORES).is_known
    assert not rate_interval([True, False], clusters=["c", "c"]).is_known


def test_equal_scores_have_the_rule_of_three():
    # 1 - 0.05 ** (1 / 20) = 0.1391: the mean may be as low as 1 - 0.1391
    found = student_t([1.0] * 20, bounds=SCORES)
    assert (found.low, found.high) == (pytest.approx(0.8609, abs=1e-4), 1.0)


def test_pairs_that_all_tie_may_differ_by_about_three_over_n():
    found = student_t(np.zeros(300), bounds=DIFFERENCES)
    assert found.high == -found.low == pytest.approx(3 / 300, rel=0.01)


def test_equal_values_without_bounds_are_unknown():
    assert not student_t([2.0, 2.0, 2.0]).is_known


def test_equal_clusters_know_no_more_than_there_are_clusters():
    found = student_t([0.5] * 40, clusters=np.repeat(np.arange(4), 10), bounds=SCORES)
    assert found == constant_interval(0.5, 4)


def test_an_interval_is_held_to_what_scores_can_be():
    assert student_t([0.0, 1.0], bounds=SCORES) == Interval(0.0, 1.0)


def test_no_trial_tells_no_rate():
    assert not wilson(0, 0).is_known


def test_a_rate_of_outputs_that_go_together_by_case_counts_cases():
    # 20 cases of 5 like outputs, half met: worth about 20, so about as wide as 10 of 20
    met = np.repeat(np.arange(20) % 2 == 0, 5)
    found = rate_interval(met, clusters=np.repeat(np.arange(20), 5))
    assert found.high - found.low == pytest.approx(wilson(10, 20).high - wilson(10, 20).low, rel=0.1)
