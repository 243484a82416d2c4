"""What chance adds to the highest of several means."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.significance import luck_of_best


def test_the_best_falls_by_the_share_of_the_variance_that_is_noise():
    # means 0.4, 0.5, 0.6: variance 0.01; an error of 0.1 of differences is a variance of 0.005 of each: half of 0.1
    assert luck_of_best([0.4, 0.5, 0.6], 0.1) == pytest.approx(0.05)


@pytest.mark.parametrize(("means", "expected"), [([0.5], 0.0), ([0.5, 0.5], 0.0), ([0.4, 0.6], 0.1)])
def test_noise_explains_at_most_the_whole_distance(means, expected):
    assert luck_of_best(means, 9.0) == pytest.approx(expected)


def test_the_best_of_twenty_equal_means_is_at_their_mean():
    rng = np.random.default_rng(1)
    found = rng.normal(0.5, 0.02, (400, 20))
    left = [means.max() - luck_of_best(means, 0.02 * np.sqrt(2)) for means in found]
    assert abs(np.mean(left) - 0.5) < 0.15 * (found.max(axis=1).mean() - 0.5)
