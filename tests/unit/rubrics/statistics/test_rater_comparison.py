"""A rater beside others on several criteria, by hand and by the statistics of one criterion."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.agreement import measure_sides
from gradebook.rubrics.statistics.rater_comparison import compare_rater
from gradebook.rubrics.text.reasons import reason_words

X = np.nan


def test_on_one_criterion_the_figures_and_intervals_are_those_of_two_sides():
    rng = np.random.default_rng(1)
    truth = rng.random(30) < 0.5
    scores = np.where(rng.random((2, 30)) < 0.2, ~truth, truth).astype(np.float64)
    cases = np.arange(30) // 2
    found = compare_rater(scores[0], scores[1:], np.zeros(30, dtype=np.int64), cases)
    sides = {each.statistic: each for each in measure_sides(scores, scores, np.array([0.0, 1.0]), cases).measures}
    for own, name in (
        (found.agreement, "percent_agreement"),
        (found.alpha, "alpha_interval"),
        (found.difference, "bias"),
    ):
        other = sides[name]
        assert (own.value, own.ci_low, own.ci_high) == pytest.approx((other.value, other.ci_low, other.ci_high))


def test_each_output_counts_once_in_the_difference_and_each_pair_in_the_agreement():
    own = np.array([1.0, 1.0, 0.5, X])
    others = np.array([[1.0, 0.0, X, 1.0], [0.0, 0.0, X, 1.0]])
    found = compare_rater(own, others, np.zeros(4, dtype=np.int64), np.arange(4))
    # pairs 1-1, 1-0, 1-0, 1-0; differences 1 - 1/2 and 1 - 0
    assert (found.n, found.pair_count) == (2, 4)
    assert (found.agreement.value, found.difference.value) == (1 / 4, 3 / 4)


def test_criteria_of_different_levels_are_no_agreement_beyond_chance():
    # On each criterion the raters differ in half of the outputs, as by chance; pooled, 0 is far from 0.9 and near 0.1.
    own, other = np.tile([0.0, 0.1, 0.0, 0.1], 5), np.tile([0.0, 0.1, 0.1, 0.0], 5)
    own, other = np.append(own, own + 0.9), np.append(other, other + 0.9)
    criteria = np.repeat([0, 1], 20)
    found = compare_rater(own, other[None], criteria, np.arange(40))
    assert found.alpha.value == pytest.approx(0.0, abs=0.03)
    assert found.alpha.ci_low < 0.0 < found.alpha.ci_high
    assert compare_rater(own, other[None], criteria * 0, np.arange(40)).alpha.value > 0.9


def test_too_few_cases_have_no_interval_of_alpha_and_no_pair_has_no_figure():
    own = np.array([0.0, 1.0, 1.0])
    few = compare_rater(own, own[None], np.zeros(3, dtype=np.int64), np.arange(3))
    assert (few.alpha.value, few.alpha.ci_low) == (1.0, None)
    assert reason_words(few.alpha.reason) == "found 3 cases, expected 8 or more for an interval"
    none = compare_rater(own, np.full((1, 3), X), np.zeros(3, dtype=np.int64), np.arange(3))
    assert {none.agreement.value, none.alpha.value, none.difference.value} == {None}
    assert reason_words(none.difference.reason) == "no output was rated by another rater too"
