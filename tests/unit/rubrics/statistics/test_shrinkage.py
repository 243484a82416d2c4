"""Differences of criteria drawn together, against a numeric integral and what they must show."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.shrinkage import TAU_SCALE, _covariance, shrink_differences


def draws(mean=0.0, spread=0.0, count=20, seed=1):
    rng = np.random.default_rng(seed)
    return mean + spread * rng.normal(size=6) + rng.normal(0, 0.15, (count, 1)) + rng.normal(0, 0.25, (count, 6))


def test_the_posterior_is_that_of_a_numeric_integral_over_the_spread():
    found = shrink_differences(x := draws(-0.05, 0.1))
    covariance = _covariance(x - x.mean(axis=0), np.full(6, 20))
    values, weights = [], []
    for tau in np.linspace(0.0, 4 * TAU_SCALE, 4_001):
        inverse = np.linalg.inv(covariance + tau**2 * np.eye(6))
        common = inverse.sum(axis=0) @ x.mean(axis=0) / inverse.sum()
        off = x.mean(axis=0) - common
        values.append(common + tau**2 * inverse @ off)
        exponent = -off @ inverse @ off / 2 - (tau / TAU_SCALE) ** 2 / 2
        weights.append(np.sqrt(np.linalg.det(inverse) / inverse.sum()) * np.exp(exponent))
    expected = np.array(weights) @ np.array(values) / sum(weights)
    assert found.values == pytest.approx(expected, abs=1e-4)


def test_alike_criteria_are_drawn_to_their_mean_and_one_that_differs_stays():
    x = draws(count=200)
    alike = shrink_differences(x)
    assert np.ptp(alike.values) < 0.6 * np.ptp(alike.plain)
    x[:, 2] -= 0.4
    apart = shrink_differences(x)
    assert apart.values[2] == pytest.approx(apart.plain[2], abs=0.03) and apart.below[2] > 0.999


@pytest.mark.parametrize("x", [draws()[:, :2], draws(count=4), np.zeros((20, 5))])
def test_two_criteria_four_cases_or_equal_differences_show_nothing(x):
    assert shrink_differences(x) is None
