"""The bootstrap: seeded, as wide as theory says, the same grouped or not, honest about what it can't know."""

import numpy as np
import pytest

from gradebook.rubrics.statistics import resampling as module
from gradebook.rubrics.statistics.resampling import bootstrap_means, percentile_interval

LEVELS = np.tile([0.0, 0.5, 1.0, 1.0], 50)


def test_the_same_seed_gives_the_same_means():
    first, again = (bootstrap_means(LEVELS, resample_count=100, seed=3) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, bootstrap_means(LEVELS, resample_count=100, seed=4))


def test_the_means_spread_as_the_bootstraps_own_formula_says():
    # Efron and Tibshirani (1993), equation 5.12: the ideal bootstrap's standard error is sd (over n) / sqrt(n)
    means = bootstrap_means(LEVELS, resample_count=20_000)
    assert means.std() == pytest.approx(LEVELS.std() / np.sqrt(LEVELS.size), rel=0.02)


def test_many_distinct_values_spread_alike_in_steps():
    values = np.random.default_rng(1).normal(size=3_000)
    means = bootstrap_means(values, resample_count=10_000)
    assert means.mean() == pytest.approx(values.mean(), abs=0.001)
    assert means.std() == pytest.approx(values.std() / np.sqrt(3_000), rel=0.03)


def test_values_that_steps_would_blur_are_drawn_one_by_one():
    # almost all of the variance lies within one step of a range that one huge value stretches: yet it is the variance
    values = np.append(np.random.default_rng(1).normal(size=600), 300.0)
    assert module._group(np.append(values, -300.0), np.ones(602)) is not None
    far = np.concatenate([np.random.default_rng(1).normal(size=60_000), [400.0]])
    assert module._group(far, np.ones(far.size)) is None


def test_whole_clusters_are_drawn():
    # 10 clusters of 20 equal values: the mean spreads as that of 10 values
    values, clusters = np.repeat(np.arange(10.0), 20), np.repeat(np.arange(10), 20)
    means = bootstrap_means(values, resample_count=20_000, clusters=clusters)
    assert means.std() == pytest.approx(np.arange(10).std() / np.sqrt(10), rel=0.03)


def test_unequal_clusters_give_the_same_as_clusters_drawn_one_by_one():
    values, clusters = np.array([0.0, 1.0, 1.0, 0.5, 0.0, 1.0]), np.array([1, 1, 1, 2, 3, 3])
    fast = bootstrap_means(values, resample_count=20_000, clusters=clusters)
    members = [np.flatnonzero(clusters == cluster) for cluster in (1, 2, 3)]
    drawn = np.random.default_rng(0).integers(0, 3, (5_000, 3))
    slow = np.array([values[np.concatenate([members[unit] for unit in units])].mean() for units in drawn])
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.01)
    assert fast.std() == pytest.approx(slow.std(), rel=0.05)


@pytest.mark.parametrize("values", [[], [0.5]])
def test_under_two_values_nothing_is_known(values):
    assert not percentile_interval(bootstrap_means(values, resample_count=10)).is_known


def test_one_cluster_knows_nothing():
    assert not percentile_interval(bootstrap_means([0.0, 1.0], resample_count=10, clusters=["c", "c"])).is_known


def test_equal_values_have_no_bootstrap_interval():
    assert not percentile_interval(bootstrap_means([1.0] * 30, resample_count=100)).is_known


def test_the_interval_stands_between_the_outer_percentiles():
    found = percentile_interval(np.arange(1001) / 1000)
    assert (found.low, found.high) == (pytest.approx(0.025), pytest.approx(0.975))


def test_a_statistic_undefined_in_too_many_resamples_is_unknown():
    statistics = np.arange(100.0)
    statistics[:5] = np.nan
    assert percentile_interval(statistics).is_known
    statistics[:6] = np.nan
    assert not percentile_interval(statistics).is_known
