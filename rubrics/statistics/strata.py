"""Means over cases drawn by stratum, each weighted by the inverse of its inclusion rate.

The standard error has two parts (Neyman 1938; Cochran 1977, section 12.2): the variance within strata over the cases
that were drawn, and the variance between strata over all cases of the dataset. So it is that of cases like those of the
dataset, as for a sample without strata; the tables have the same (sql/intermediate/intervals/int_strata_compared.sql).
"""

from dataclasses import dataclass
from math import nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.intervals import SPREAD_TOLERANCE, Mean


@dataclass(frozen=True, slots=True)
class Strata:
    """Design of a sample, by value. dataset_case_count: cases that it was drawn from.

    codes: (n,), stratum, from 0. weights: (n,), over 0, such as 1 / inclusion rate.
    """

    codes: NDArray[np.int64]
    weights: Floats
    dataset_case_count: float

    def at(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> "Strata":
        """Design of some of the values."""
        return Strata(self.codes[places], self.weights[places], self.dataset_case_count)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Deviations of clusters from their stratum, and variances. All but the last: (cluster,)."""

    deviations: Floats  # of the mean: their squares add up to the variance within strata
    freedom: Floats  # 1 / (clusters of the stratum - 1)
    strata: NDArray[np.int64]
    between_variance: float


def weighted_mean(values: ArrayLike, strata: Strata | None) -> float:
    """Mean of the values; NaN without any."""
    found = np.asarray(values, dtype=np.float64)
    if not found.size:
        return nan
    return float(found.mean() if strata is None else found @ strata.weights / strata.weights.sum())


def measure_strata(values: ArrayLike, strata: Strata, clusters: ArrayLike | None = None) -> Mean:
    """Weighted mean with its standard error, robust to correlation within clusters.

    values: (n,), no NaN. clusters: (n,), such as the case of an output; a cluster within two strata counts as two. A
    stratum of one cluster has no variance of its own: its distance from the mean of all stands for it. Degrees of
    freedom: Satterthwaite's (1946), at most the clusters less the strata.
    """
    found = np.asarray(values, dtype=np.float64)
    n, mean = found.size, weighted_mean(found, strata)
    if not n:
        return Mean(0, 0, nan, nan, nan, nan)
    share = strata.weights / strata.weights.sum()
    sd = sqrt(float(share @ np.square(found - mean)) * n / (n - 1)) if n > 1 else nan
    parts = _measure_parts(found, strata, clusters, mean)
    unit_count = parts.deviations.size
    if unit_count < 2:
        return Mean(n, unit_count, mean, sd, nan, nan)
    by_stratum = np.bincount(parts.strata, np.square(parts.deviations))
    freedom = np.bincount(parts.strata, parts.freedom) / np.maximum(np.bincount(parts.strata), 1)
    within, blurred = float(by_stratum.sum()), float(np.square(by_stratum) @ freedom)
    most = max(1.0, unit_count - float(np.unique(parts.strata).size))
    df = max(1.0, min(most, within**2 / blurred)) if blurred else most
    error = sqrt(within + parts.between_variance / strata.dataset_case_count)
    return Mean(n, unit_count, mean, sd, error, df)


def stand_in_values(values: ArrayLike, strata: Strata, clusters: ArrayLike | None = None) -> Floats:
    """Independent values, one for each cluster, whose plain mean and standard error are the weighted ones.

    For resampling. The variance between strata is left out.
    """
    found = np.asarray(values, dtype=np.float64)
    mean = weighted_mean(found, strata)
    deviations = _measure_parts(found, strata, clusters, mean).deviations
    return np.asarray(mean + deviations.size * deviations, dtype=np.float64)


def _measure_parts(values: Floats, strata: Strata, clusters: ArrayLike | None, mean: float) -> _Parts:
    units = np.arange(values.size) if clusters is None else np.asarray(clusters)
    _, codes = np.unique(strata.codes + 1j * units, return_inverse=True)
    weights, totals = np.bincount(codes, strata.weights), np.bincount(codes, strata.weights * values)
    of_unit = np.zeros(weights.size, dtype=np.int64)
    of_unit[codes] = strata.codes
    counts = np.bincount(of_unit)
    means = np.bincount(of_unit, totals) / np.where(counts, np.bincount(of_unit, weights), 1.0)
    is_alone = counts[of_unit] == 1
    deviations = totals - weights * np.where(is_alone, mean, means[of_unit])
    deviations = np.where(np.abs(deviations) <= SPREAD_TOLERANCE * weights, 0.0, deviations)  # rounding of equal values
    factor = np.where(is_alone, 1.0, counts[of_unit] / np.maximum(counts[of_unit] - 1.0, 1.0))
    between = float(weights @ np.square(means[of_unit] - mean) / weights.sum())
    return _Parts(
        deviations * np.sqrt(factor) / weights.sum(),
        1.0 / np.maximum(counts[of_unit] - 1.0, 1.0),
        of_unit,
        between,
    )
