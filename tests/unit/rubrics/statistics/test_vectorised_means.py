"""rubrics/statistics/intervals: many samples at once, held to the same figures of one after the other."""

from math import nan

import numpy as np
import pytest

from gradebook.rubrics.statistics.intervals import measure_mean, measure_means

CASES = np.array([4, 1, 1, 2, 2, 2, 3, 0, 4])  # of 1 to 3 values, in no order


def samples() -> np.ndarray:
    """Differences with gaps: random ones, none, one, two of one case, and constant ones."""
    rng = np.random.default_rng(5)
    drawn = np.where(rng.random((40, 9)) < 0.2, nan, rng.integers(-2, 3, (40, 9)) / 2)
    one, pair = np.full((2, 9), nan)
    one[3], pair[1:3] = 0.5, (0.5, -0.5)
    return np.vstack([drawn, np.full(9, nan), one, pair, np.zeros(9), np.full(9, 0.5)])


@pytest.mark.parametrize("cases", [None, CASES], ids=["pairs", "cases"])
def test_each_sample_has_the_figures_that_it_has_alone(cases):
    found = measure_means(samples(), cases)
    for index, sample in enumerate(samples()):
        known = ~np.isnan(sample)
        alone = measure_mean(sample[known], None if cases is None else cases[known])
        expected = (alone.n, alone.unit_count, alone.mean, alone.sd, alone.standard_error, alone.df)
        columns = (found.n, found.unit_count, found.mean, found.sd, found.standard_error, found.df)
        assert [column[index] for column in columns] == pytest.approx(expected, nan_ok=True)
