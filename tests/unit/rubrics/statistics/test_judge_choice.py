"""rubrics/statistics/judge_quality: pairs ordered as people do, with ties."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.judge_quality import ordered_alike, pairwise_accuracy

CASES = np.arange(8) % 2  # a half each
RNG = np.random.default_rng(1)


def test_pairs_count_as_in_a_hand_worked_example():
    # each half has the same four outputs: of 6 pairs, people tie 1
    rated, judged = np.repeat([0.0, 0.5, 0.5, 1.0], 2), np.repeat([0.1, 0.5, 0.6, 0.4], 2)
    # without a margin 3 pairs are right: 0-1, 0-2 and 0-3; a margin of 0.1 makes 1-2 the tie that it is, and loses none
    found = pairwise_accuracy(judged, rated, CASES, RNG)
    assert (found.value, found.pair_count) == (pytest.approx(4 / 6), 12)
    assert found.tie_margin == pytest.approx(0.1)


def test_a_judge_that_says_one_thing_gets_the_ties_alone_and_models_are_ordered_by_means():
    rated = np.repeat([0.0, 0.5, 0.5, 1.0], 2)
    assert pairwise_accuracy(np.ones(8), rated, CASES, RNG).value == pytest.approx(1 / 6)
    assert pairwise_accuracy(rated[:2], rated[:2], CASES[:2], RNG).value is None
    assert ordered_alike(np.array([0.2, 0.3, 0.1]), np.array([0.1, 0.5, 0.5])) == (1, 2)


def test_noise_gains_nothing_from_choosing_a_margin():
    rng = np.random.default_rng(9)
    found = [pairwise_accuracy(rng.random(40), rng.random(40), np.arange(40), rng).value for _ in range(300)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.01)
