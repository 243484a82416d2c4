"""A judge's passes and failures beside people's, and how good its probabilities are."""

import math

import numpy as np
import pytest

from gradebook.rubrics.statistics.intervals import wilson
from gradebook.rubrics.statistics.judge_quality import judge_trust

PASSED = np.array([True] * 8 + [False] * 2)
CASES = np.arange(10)
NONE = np.full(10, np.nan)


def test_a_judge_that_passes_everything_agrees_well_and_finds_no_failure():
    found = judge_trust(PASSED, np.full(10, True), NONE, CASES)
    assert (found.n, found.failure_count, found.found.value) == (10, 2, 0.0)
    assert found.agreement.value == found.always_pass == 0.8
    assert found.is_no_better_than_passing
    expected = wilson(0, 2)
    assert (found.found.low, found.found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_recall_of_failures_and_agreement_are_the_worked_example():
    judged = np.array([True] * 7 + [False] * 2 + [True])  # it fails a pass, finds one failure and misses the other
    found = judge_trust(PASSED, judged, NONE, CASES)
    assert (found.found.n, found.found.value, found.agreement.value) == (2, 0.5, 0.8)
    assert found.is_no_better_than_passing
    assert (found.brier, found.log_loss, found.reliability) == (None, None, ())


def test_brier_and_log_loss_are_the_worked_example():
    # (0.1^2 + 0.4^2 + 0.3^2) / 3 = 0.26 / 3; base rate 2/3: (2 x (1/3)^2 + (2/3)^2) / 3 = 2/9
    passed, shares = np.array([True, True, False]), np.array([0.9, 0.6, 0.3])
    found = judge_trust(passed, shares >= 0.5, shares, np.arange(3))
    assert found.brier == pytest.approx(0.26 / 3)
    assert found.base_brier == pytest.approx(2 / 9)
    assert found.log_loss == pytest.approx(-(math.log(0.9) + math.log(0.6) + math.log(0.7)) / 3)
    assert [(each.low, each.passed.n, each.mean, each.passed.value) for each in found.reliability] == [
        (0.2, 1, pytest.approx(0.3), 0.0),
        (0.6, 1, pytest.approx(0.6), 1.0),
        (0.8, 1, pytest.approx(0.9), 1.0),
    ]


def test_a_certain_error_costs_much_and_not_infinitely_much():
    found = judge_trust(np.array([False]), np.array([True]), np.array([1.0]), np.arange(1))
    assert found.log_loss == pytest.approx(-math.log(1e-6))
    assert (found.found.value, found.reliability[0].high) == (0.0, 1.0)


def test_without_failures_their_share_is_unknown():
    found = judge_trust(np.full(3, True), np.full(3, True), np.full(3, np.nan), np.arange(3))
    assert (found.found.n, found.found.value, found.found.low) == (0, None, None)


def test_outputs_without_probabilities_are_left_out_of_the_curve_alone():
    found = judge_trust(PASSED, PASSED, np.r_[[0.7], np.full(9, np.nan)], CASES)
    assert (found.n, sum(each.passed.n for each in found.reliability)) == (10, 1)
