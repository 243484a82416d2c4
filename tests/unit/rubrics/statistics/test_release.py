"""Decisions on whether a model may ship."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.calibration import Rated
from gradebook.rubrics.statistics.intervals import Interval, measure_mean
from gradebook.rubrics.statistics.means import count_moved, measure_difference, measure_scores, score_interval
from gradebook.rubrics.statistics.release import (
    Ship,
    decide_failures,
    decide_mean,
    failure_interval,
    failures_by_people,
    filled_interval,
    interval_at,
    trials_behind,
    whole_outcome,
)


def test_no_failure_of_20_could_be_16_8_percent():
    # 1 - 0.025^(1/20)
    assert failure_interval(0, 20).high == pytest.approx(1 - 0.025**0.05)
    assert failure_interval(0, 20).high == pytest.approx(0.168, abs=5e-4)


def test_interval_of_a_failure_rate_is_that_of_clopper_and_pearson():
    # binom.test(4, 20): 0.0573 to 0.4366
    assert failure_interval(4, 20).low == pytest.approx(0.057334, abs=1e-6)
    assert failure_interval(4, 20).high == pytest.approx(0.436614, abs=1e-6)


@pytest.mark.parametrize(
    ("count", "outcome", "more"), [(20, Ship.UNDECIDED, 52), (71, Ship.UNDECIDED, 1), (72, Ship.MAY, None)]
)
def test_gate_without_a_failure_needs_72_cases_to_show_5_percent(count, outcome, more):
    # ln(0.025) / ln(0.95) = 71.9
    found = decide_failures(0, count, 0.05)
    assert (found.outcome, found.more_count) == (outcome, more)


def test_one_failure_refutes_a_hard_gate_and_not_one_that_tolerates_some():
    assert decide_failures(1, 1000, 0.05).outcome is Ship.MAY_NOT
    assert decide_failures(1, 1000, 0.05, is_hard=False).outcome is Ship.MAY
    assert decide_failures(100, 1000, 0.05, is_hard=False).outcome is Ship.MAY_NOT
    undecided = decide_failures(3, 42, 0.05, is_hard=False)  # 7.1%, 1.5 to 19.5%
    assert undecided.outcome is Ship.UNDECIDED
    assert decide_failures(3 / 42 * 800, 800, 0.05, is_hard=False).outcome is Ship.MAY_NOT
    assert (
        decide_failures(3 / 42 * (42 + undecided.more_count), 42 + undecided.more_count, 0.05, is_hard=False).outcome
        is Ship.MAY_NOT
    )


def test_rate_at_its_limit_is_decided_by_no_number_of_cases():
    assert decide_failures(5, 100, 0.05, is_hard=False).more_count is None


@pytest.mark.parametrize("is_hard", [True, False])
def test_unknown_verdicts_of_a_gate_may_be_failures(is_hard):
    assert decide_failures(0, 100, 0.05, unknown=3, is_hard=is_hard).outcome is Ship.UNDECIDED
    assert decide_failures(0, 1000, 0.05, unknown=3, is_hard=is_hard).outcome is (
        Ship.UNDECIDED if is_hard else Ship.MAY
    )


def test_gate_without_an_output_is_undecided():
    assert decide_failures(0, 0, 0.05).outcome is Ship.UNDECIDED


def test_mean_is_decided_by_the_end_towards_the_threshold():
    assert decide_mean(0.8, Interval(0.7, 0.9), 0.7, 50, 0.8).outcome is Ship.MAY
    assert decide_mean(0.6, Interval(0.5, 0.69), 0.7, 50, 0.6).outcome is Ship.MAY_NOT
    found = decide_mean(0.8, Interval(0.6, 0.9), 0.7, 50, 0.8)
    # A margin of 0.2 has to become 0.1: four times the cases.
    assert (found.outcome, found.more_count) == (Ship.UNDECIDED, 150)
    assert decide_mean(0.7, Interval(0.6, 0.8), 0.7, 50, 0.7).more_count is None


def test_single_case_decides_no_mean():
    assert decide_mean(1.0, score_interval([1.0]), 0.7, 1, 1.0).outcome is Ship.UNDECIDED


def test_model_ships_only_if_all_requirements_are_shown():
    assert whole_outcome([]) is Ship.NO_GATE
    assert whole_outcome([Ship.MAY, Ship.MAY]) is Ship.MAY
    assert whole_outcome([Ship.MAY, Ship.UNDECIDED]) is Ship.UNDECIDED
    assert whole_outcome([Ship.UNDECIDED, Ship.MAY_NOT, Ship.MAY]) is Ship.MAY_NOT


def test_interval_at_another_alpha_is_close_to_the_measured_one():
    values = [0.2, 0.5, 0.5, 0.75, 0.9, 1.0, 0.4, 0.6, 0.8, 0.7] * 5
    found, usual = measure_scores(values), score_interval(values)
    assert interval_at(found, usual.low, usual.high, 0.025) == usual
    scaled, measured = interval_at(found, usual.low, usual.high, 0.05), score_interval(values, level=0.9)
    assert (scaled.low, scaled.high) == pytest.approx((measured.low, measured.high), abs=2e-3)


def test_missing_scores_count_as_their_worst_value():
    values = [0.5, 0.7, 0.9, 0.8, 0.6, 1.0, 0.4, 0.7]
    filled, whole = filled_interval(measure_scores(values), 2, 0.0, 0.025), score_interval([*values, 0.0, 0.0])
    assert (filled.low, filled.high) == pytest.approx((whole.low, whole.high), abs=0.03)


def test_trials_behind_a_rate_are_those_that_give_its_interval():
    assert trials_behind(0.1, failure_interval(3, 30).high, 30) == pytest.approx(30)
    assert trials_behind(0.1, failure_interval(2, 20).high, 100) == pytest.approx(20, abs=1e-3)
    assert trials_behind(0.0, failure_interval(0, 25).high, 100) == pytest.approx(25, abs=1e-3)


def test_a_failure_rate_has_the_errors_of_the_judge_that_ratings_show():
    # Judge: 10 of 200 fail; of 100 rated, it passed 4 that people fail, and failed 1 that they pass: .05 + .04 - .01.
    judged, ratings = np.zeros(100), np.zeros(100)
    judged[:5], ratings[1:9] = 1.0, 1.0
    unrated = np.zeros(100)
    unrated[:5] = 1.0
    found = failures_by_people(Rated(ratings, judged, unrated))
    assert found.value == pytest.approx(0.08, abs=1e-12)
    # By MOVER of the two intervals: binom.test(10, 200), and the mean of 4 losses and 1 gain in 100 pairs.
    judge = failure_interval(10, 200)
    errors = measure_difference(measure_mean(ratings - judged), count_moved(ratings - judged))
    high = np.hypot(judge.high - 0.05, errors.high - 0.03)
    assert found.interval.high == pytest.approx(0.08 + high, abs=1e-9)
    assert found.interval.high > failure_interval(8, 100).high - 0.04
    all_rated = failures_by_people(Rated(ratings, judged, np.array([]))).interval
    assert all_rated.high == pytest.approx(failure_interval(8, 100).high, abs=1e-9)
