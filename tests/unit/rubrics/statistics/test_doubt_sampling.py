"""Outputs drawn by the judge's doubt, and people's mean from them."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.doubt_sampling import Drawn, doubt_keys, drawn_mean, inclusion_rates


def test_weights_are_half_uniform_and_half_in_proportion_to_the_doubt():
    _, weights = doubt_keys(np.array([0.0, 0.1, 0.5]), np.random.default_rng(1))
    # a mean doubt of 0.2: 0.5 + 0.5 x (0, 0.5, 2.5)
    assert weights == pytest.approx([0.5, 0.75, 1.75])


def test_an_output_is_included_with_the_probability_that_its_key_is_below_the_first_one_not_reached():
    keys, weights = np.array([0.2, 0.9, 0.5]), np.array([2.0, 1.0, 1.0])
    rates, is_drawn = inclusion_rates(keys, weights, np.array([True, False, False]))
    assert rates == pytest.approx([1 - np.exp(-2 * 0.5), *2 * [1 - np.exp(-0.5)]])
    assert is_drawn.tolist() == [True, False, False]
    rates, is_drawn = inclusion_rates(keys, weights, np.ones(3, bool))
    assert (rates.tolist(), is_drawn.all()) == ([1.0, 1.0, 1.0], True)


def test_the_mean_is_the_weighted_one_where_the_judge_says_nothing():
    rng = np.random.default_rng(2)
    ratings, rates = rng.integers(0, 2, 60).astype(float), rng.uniform(0.2, 1.0, 60)
    estimate = drawn_mean(Drawn(np.full(60, 0.5), ratings, rates, np.arange(60)))
    assert estimate.value == pytest.approx(float((ratings / rates).sum() / (1 / rates).sum()), abs=1e-12)


def test_over_many_draws_the_mean_has_no_bias_though_the_rated_outputs_have():
    rng = np.random.default_rng(3)
    quality = rng.beta(1.5, 0.6, 400)
    truth, judged = (rng.random(400) < quality).astype(float), (quality > 0.45).astype(float)
    found, rated = [], []
    for seed in range(300):
        keys, weights = doubt_keys(np.minimum(quality, 1 - quality), np.random.default_rng(seed))
        reached = np.argsort(np.argsort(keys)) < 60
        rates, _ = inclusion_rates(keys, weights, reached)
        estimate = drawn_mean(Drawn(judged, np.where(reached, truth, np.nan), rates, np.arange(400)))
        found.append(estimate.value)
        rated.append(truth[reached].mean())
    assert np.mean(found) == pytest.approx(truth.mean(), abs=0.01)
    assert abs(np.mean(rated) - truth.mean()) > 0.03


def test_below_thirty_ratings_there_is_no_mean():
    ratings = np.where(np.arange(100) < 29, 1.0, np.nan)
    assert drawn_mean(Drawn(np.ones(100), ratings, np.full(100, 0.3), np.arange(100))).value is None
