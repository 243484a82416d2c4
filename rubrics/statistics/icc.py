"""Intraclass correlations: the share of the scores' variance due to units instead of raters.

Shrout and Fleiss (1979): (1,1) each unit has its own raters; (2,1) the raters are a sample of raters; (3,1) they are
the only raters, and their severity is ignored. The k forms refer to the mean of the raters.
"""

from dataclasses import dataclass

import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.kappa import ratio


@dataclass(frozen=True, slots=True)
class OneWaySums:
    """Sums over units with raters of their own. All arrays: (table,), units counted as often as they are drawn."""

    units: Floats
    ratings: Floats
    squared_sizes: Floats  # sum of m^2, with m ratings of a unit
    total: Floats
    squares: Floats
    between: Floats  # sum of (sum of a unit)^2 / m


@dataclass(frozen=True, slots=True)
class TwoWaySums:
    """Sums over units that every rater rated. All arrays: (table,), except of_raters (table, rater)."""

    units: Floats
    of_raters: Floats
    squares: Floats
    between: Floats  # sum of (sum of a unit)^2 / k, with k raters


def one_way_correlations(sums: OneWaySums) -> tuple[Floats, Floats]:
    """ICC(1,1) and ICC(1,k): each (table,), at most 1, NaN without variance; (1,k) if no unit's mean varies.

    Units may have different numbers of ratings: k is then k0 of the unbalanced one-way analysis of variance.
    """
    df = sums.units - 1.0
    overall = ratio(np.square(sums.total), sums.ratings)
    mean_between = ratio(sums.between - overall, df)
    mean_within = ratio(sums.squares - sums.between, sums.ratings - sums.units)
    size = ratio(sums.ratings - ratio(sums.squared_sizes, sums.ratings), df)
    difference = mean_between - mean_within
    return _share(difference, mean_between + (size - 1.0) * mean_within), _share(difference, mean_between)


def two_way_correlations(sums: TwoWaySums) -> tuple[Floats, Floats, Floats, Floats]:
    """ICC(2,1), ICC(2,k), ICC(3,1), ICC(3,k): each (table,), at most 1, NaN without variance.

    (3,k) is NaN if the units' means are equal, (2,k) if they differ so little compared with the errors that the
    variance in the denominator is estimated as 0 or less.
    """
    units, raters = sums.units, sums.of_raters.shape[1]
    overall = ratio(np.square(sums.of_raters.sum(axis=1)), units * raters)
    of_units = sums.between - overall
    of_raters = ratio(np.square(sums.of_raters).sum(axis=1), units) - overall
    mean_units = ratio(of_units, units - 1.0)
    mean_raters = of_raters / (raters - 1.0)
    mean_errors = ratio(sums.squares - overall - of_units - of_raters, (units - 1.0) * (raters - 1.0))
    difference = mean_units - mean_errors
    severity = ratio(mean_raters - mean_errors, units)
    return (
        _share(difference, mean_units + (raters - 1.0) * mean_errors + raters * severity),
        _share(difference, mean_units + severity),
        _share(difference, mean_units + (raters - 1.0) * mean_errors),
        _share(difference, mean_units),
    )


def _share(parts: Floats, variances: Floats) -> Floats:
    """Divide by an estimated variance; NaN if it is 0 or, as possible for (2,k), negative."""
    return ratio(parts, np.maximum(variances, 0.0))
