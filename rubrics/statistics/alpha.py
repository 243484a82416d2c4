"""Krippendorff's alpha, for any number of raters and missing ratings, with three metrics.

Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability". The package `krippendorff` computes one table at a
time and is under the GPL; here a bootstrap's thousand tables are one matrix product.
"""

import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.kappa import ratio

RELATIVE_TOLERANCE = 1e-12  # of a difference of two sums of squares: the rounding error of a float sum
METRICS = ("nominal", "ordinal")  # of levels; the interval metric applies to scores


def krippendorff_alpha(coincidences: Floats, scale: Floats, metric: str) -> Floats:
    """Alpha from coincidence matrices.

    coincidences: (table, level, level): each unit of m ratings adds to each cell its number of such pairs over m - 1.
    scale: (level,), the levels' scores, ascending. metric: one of `METRICS`. Returns (table,), at most 1, NaN if all
    ratings are equal or there are no pairs.
    """
    totals = coincidences.sum(axis=2)
    distances = _squared_distances(totals, scale, metric)
    observed = (coincidences * distances).sum(axis=(1, 2))
    expected = (totals[:, :, None] * totals[:, None, :] * distances).sum(axis=(1, 2))
    return 1.0 - ratio(observed * (totals.sum(axis=1) - 1.0), expected)


def interval_alpha(observed: Floats, counts: Floats, sums: Floats, squares: Floats) -> Floats:
    """Alpha with the interval metric from sums, for scores with any number of values.

    All arrays: (table,). observed: sum over units of the squared differences of their ordered pairs over m - 1. counts,
    sums, squares: of the ratings in units with two or more, preferably of ratings minus their mean, as rounding affects
    the difference of large squares. Returns (table,), at most 1, NaN if all ratings are equal.
    """
    total = counts * squares
    difference = total - np.square(sums)
    expected = np.where(difference <= RELATIVE_TOLERANCE * total, 0.0, 2.0 * difference)
    return 1.0 - ratio(observed * (counts - 1.0), expected)


def _squared_distances(totals: Floats, scale: Floats, metric: str) -> Floats:
    """Squared distances of levels: (table or 1, level, level). totals: (table, level), how often each level was
    given.
    """
    if metric == "ordinal":
        ranks = np.cumsum(totals, axis=1) - totals / 2
        return np.square(ranks[:, :, None] - ranks[:, None, :])
    differences = scale[:, None] - scale[None, :]
    is_other: Floats = (differences != 0).astype(np.float64)
    return is_other[None]
