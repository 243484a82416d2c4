"""Means over cases drawn by stratum, each weighted by the inverse of its inclusion rate.

The standard error has two parts (Neyman 1938; Cochran 1977, section 12.2): the variance within strata over the cases
that were drawn, and the variance between strata over all cases of the dataset. So it is that of cases like those of the
dataset, as for a sample without strata; the tables have the same (sql/intermediate/intervals/int_strata_compared.sql).
"""

from dataclasses import dataclass, replace
from math import nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats, cluster_sums
from gradebook.rubrics.statistics.intervals import SPREAD_TOLERANCE, Mean
from gradebook.rubrics.statistics.means import Moved, count_moved, skewness_of

LEAST_CLUSTERS = 5  # of a stratum with a variance of its own


@dataclass(frozen=True, slots=True)
class Strata:
    """Design of a sample, by value. dataset_case_count: cases that it was drawn from.

    codes: (n,), stratum, from 0. weights: (n,), over 0, such as 1 / inclusion rate. is_drawn: whether cases were drawn
    at unlike rates; False: the weights only let each case count once, so all cases count the same.
    """

    codes: NDArray[np.int64]
    weights: Floats
    dataset_case_count: float
    is_drawn: bool = True

    def at(self, selection: NDArray[np.int64] | NDArray[np.bool_]) -> "Strata":
        """Design of some of the values."""
        return replace(self, codes=self.codes[selection], weights=self.weights[selection])


def count_cases_once(cases: NDArray[np.int64]) -> Strata:
    """Design by which each case counts once, whatever its number of values. cases: (n,), from 0."""
    counts = np.bincount(cases)
    return Strata(np.zeros(cases.size, np.int64), 1.0 / counts[cases], float(np.count_nonzero(counts)), is_drawn=False)


def share_weights(strata: "Strata", cases: NDArray[np.int64]) -> "Strata":
    """Strata of values of which those of one case share its weight. cases: (n,), from 0."""
    return replace(strata, weights=strata.weights / np.bincount(cases)[cases])


@dataclass(frozen=True, slots=True)
class _ClusterDeviations:
    """Deviations of clusters from their stratum, and variances. All but the last: (cluster,)."""

    weights: Floats
    deviations: Floats  # of the mean: their squares add up to the variance within strata
    groups: NDArray[np.int64]  # strata, with the small ones as one
    between_variance: float


def weighted_mean(values: ArrayLike, strata: Strata | None) -> float:
    """Mean of the values; NaN without any."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return nan
    return float(array.mean() if strata is None else array @ strata.weights / strata.weights.sum())


def measure_strata(
    values: ArrayLike, strata: Strata, clusters: ArrayLike | None = None, *, of_scores: bool = False
) -> Mean:
    """Weighted mean with its standard error, robust to correlation within clusters.

    values: (n,), no NaN. clusters: (n,), such as the case of an output; a cluster within two strata counts as two.
    Strata of fewer than `LEAST_CLUSTERS` have their variance together, as one stratum (Cochran 1977, section 5A.12):
    two equal values of one would claim that it has none. of_scores: a larger stratum of equal values, beside others,
    has the variance of half a cluster at the other end of 0..1. Degrees of freedom: Satterthwaite's, with Welch's
    correction (1947) for few clusters of a stratum, at most the clusters less the strata.
    """
    array = np.asarray(values, dtype=np.float64)
    n, mean = array.size, weighted_mean(array, strata)
    if not n:
        return Mean(0, 0, nan, nan, nan, nan)
    share = strata.weights / strata.weights.sum()
    sd = sqrt(float(share @ np.square(array - mean)) * n / (n - 1)) if n > 1 else nan
    clustered = _measure_deviations(array, strata, clusters, mean)
    unit_count = clustered.deviations.size
    if unit_count < 2:
        return Mean(n, unit_count, mean, sd, nan, nan)
    variances, counts = np.bincount(clustered.groups, np.square(clustered.deviations)), np.bincount(clustered.groups)
    if of_scores and (variances.any() or clustered.between_variance > SPREAD_TOLERANCE**2):
        shares, unseen = (
            np.bincount(clustered.groups, clustered.weights) / clustered.weights.sum(),
            0.5 / (counts + 1.0),
        )
        floor = np.square(shares) * unseen * (1.0 - unseen) / np.maximum(counts, 1)
        variances = np.where(variances == 0.0, floor, variances)
    within, blurred = float(variances.sum()), float((np.square(variances) / (counts + 1.0)).sum())
    most = max(1.0, unit_count - float((counts > 0).sum()))
    df = max(1.0, min(most, within**2 / blurred - 2.0)) if blurred else most
    error = sqrt(within + clustered.between_variance / strata.dataset_case_count)
    return Mean(n, unit_count, mean, sd, error, df)


def pseudo_values(values: ArrayLike, strata: Strata, clusters: ArrayLike | None = None) -> Floats:
    """Independent values, one for each cluster, whose plain mean and standard error are the weighted ones.

    For resampling. The variance between strata is left out.
    """
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return array
    mean = weighted_mean(array, strata)
    deviations = _measure_deviations(array, strata, clusters, mean).deviations
    return np.asarray(mean + deviations.size * deviations, dtype=np.float64)


def count_moved_by_stratum(values: ArrayLike, strata: Strata, clusters: ArrayLike | None = None) -> Moved:
    """Moved clusters, with the skewness of the weighted mean's error, and Kish's (1965) effective number of clusters.

    Degrees of freedom can't stand for clusters here: strata in which nothing moved have none.
    """
    array = np.asarray(values, dtype=np.float64)
    moved = count_moved(cluster_sums(array, clusters)[0])
    if not array.size:
        return moved
    mean = weighted_mean(array, strata)
    clustered = _measure_deviations(array, strata, clusters, mean)
    units = np.asarray(clustered.weights.sum() ** 2 / np.square(clustered.weights).sum())
    count = clustered.deviations.size
    skewness = skewness_of(clustered.deviations) * np.sqrt(units / count)
    weighted = count_moved(mean + count * clustered.deviations)  # the values of `pseudo_values`
    return replace(weighted, risen=moved.risen, fallen=moved.fallen, skewness=skewness, units=units)


def _measure_deviations(values: Floats, strata: Strata, clusters: ArrayLike | None, mean: float) -> _ClusterDeviations:
    units = np.arange(values.size) if clusters is None else np.asarray(clusters)
    _, codes = np.unique(strata.codes + 1j * units, return_inverse=True)
    weights: Floats = np.bincount(codes, strata.weights).astype(np.float64)
    totals = np.bincount(codes, strata.weights * values)
    of_unit = np.zeros(weights.size, dtype=np.int64)
    of_unit[codes] = strata.codes
    groups = _join_small_strata(of_unit)
    counts = np.bincount(groups)
    means = np.bincount(groups, totals) / np.where(counts, np.bincount(groups, weights), 1.0)
    deviations = totals - weights * means[groups]
    deviations = np.where(np.abs(deviations) <= SPREAD_TOLERANCE * weights, 0.0, deviations)  # rounding of equal values
    factor = counts[groups] / np.maximum(counts[groups] - 1.0, 1.0)
    between = float(weights @ np.square(means[groups] - mean) / weights.sum())
    return _ClusterDeviations(weights, deviations * np.sqrt(factor) / weights.sum(), groups, between)


def _join_small_strata(of_unit: NDArray[np.int64]) -> NDArray[np.int64]:
    """Stratum of each cluster, with the small ones as one. If that is small too, the next larger ones join it."""
    counts = np.bincount(of_unit)
    is_joined = counts < LEAST_CLUSTERS
    if 0 < counts[is_joined].sum() < LEAST_CLUSTERS and not is_joined.all():
        is_joined |= counts == counts[~is_joined].min()
    return np.where(is_joined[of_unit], counts.size, of_unit)
