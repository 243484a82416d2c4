"""Scores beside outcomes: correlations, suggested weights and what criteria add."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.outcomes import pearson, spearman, suggest_weights, unique_shares

RNG = np.random.default_rng(5)
CASES = np.arange(200)


def test_correlations_are_those_of_scipy():
    own, others = RNG.normal(size=40).round(1), RNG.normal(size=40).round(1)
    from scipy.stats import pearsonr, spearmanr

    for ours, theirs in ((pearson, pearsonr), (spearman, spearmanr)):
        found = ours(own, others, np.arange(40))
        assert found.value == pytest.approx(theirs(own, others).statistic)
        assert found.interval.low < found.value < found.interval.high


def test_copies_of_a_case_add_nothing():
    own, others = RNG.normal(size=30), RNG.normal(size=30)
    once = pearson(own, others, np.arange(30))
    copied = pearson(*(np.repeat(each, 3) for each in (own, others)), np.repeat(np.arange(30), 3))
    assert (copied.value, copied.interval.low) == pytest.approx((once.value, once.interval.low), abs=0.02)


@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_few_or_constant_values_have_no_interval(size):
    assert not pearson(np.arange(size) / 10, np.arange(size)[::-1] ** 2 / 7, np.arange(size)).interval.is_known
    assert np.isnan(pearson(np.ones(50), RNG.normal(size=50), np.arange(50)).value)


def test_suggested_weights_are_those_that_made_the_outcome():
    scores = RNG.random((200, 4))
    outcome = scores @ np.array([0.6, 0.4, 0.0, 0.0])
    scores[:, 3] = 0.5
    found = suggest_weights(scores, scores.mean(axis=1), outcome, CASES)
    assert found is not None
    assert found.shares == pytest.approx([0.6, 0.4, 0.0, np.nan], abs=1e-6, nan_ok=True)
    assert found.r2_fit == pytest.approx(1.0)
    assert 0 < found.r2_now < 1
    assert not found.intervals[3].is_known
    assert suggest_weights(scores[:8], scores[:8, 0], outcome[:8], CASES[:8]) is None
    assert suggest_weights(scores, scores[:, 0], np.ones(200), CASES) is None


def test_a_sum_of_others_adds_nothing_and_a_constant_is_unknown():
    free = RNG.normal(size=(300, 3))
    scores = np.column_stack([free[:, 0], free[:, 1], free[:, 0] + free[:, 1], free[:, 2], np.ones(300)])
    found = unique_shares(scores)
    assert found[:3] == pytest.approx([0, 0, 0], abs=1e-9)
    assert found[3] > 0.95
    assert np.isnan(found[4])
