"""Seeded bootstrap: resampled means at any size.

Efron (1979), with the percentile interval of Efron and Tibshirani (1993), chapter 13. With clusters, whole clusters are
drawn, each with all its values (Field and Welsh 2007, the cluster bootstrap).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.intervals import SPREAD_TOLERANCE, UNKNOWN, Interval

MOST_GROUPS = 512  # equal values are drawn together; more distinct values than this are binned into this many steps
MOST_VARIANCE_LOST = 1e-3  # by that binning; 10,000 resamples estimate a variance to within 1.4e-2
CHUNK_CELLS = 4_000_000  # of 8 bytes: maximum in memory at once
LEAST_DEFINED = 0.95  # share of resamples in which a statistic has to be defined


def bootstrap_means(
    values: ArrayLike, *, resample_count: int = 10_000, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """Means of resamples of the values.

    values: (n,), no NaN. clusters: (n,), cluster of each value, of any sortable type. Returns (resample,), NaN with
    fewer than two values or clusters. Equal values are drawn together as a multinomial count, so that the time depends
    on the number of distinct ones. More than `MOST_GROUPS` distinct values are first binned into as many equal steps,
    each with its own mean, unless that would lose more than `MOST_VARIANCE_LOST` of the variance.
    """
    sums, sizes = cluster_sums(values, clusters)
    if sums.size < 2 or not resample_count:
        return np.full(resample_count, np.nan)
    rng = np.random.default_rng(seed)
    drawn = _group(sums, sizes)
    if drawn is None:
        return _draw_units(sums, sizes, resample_count, rng)
    group_sums, group_sizes, counts = drawn
    means = [(weights @ group_sums) / (weights @ group_sizes) for weights in _draw_counts(counts, resample_count, rng)]
    return np.concatenate(means)


def percentile_interval(statistics: ArrayLike, level: float = 0.95) -> Interval:
    """Interval between the outer percentiles of resampled statistics.

    NaN without statistics, or if all are equal, as for equal values: a width of 0 would claim certainty. NaN also if
    the statistic is undefined (NaN) in more than 1 of 20 resamples; fewer undefined ones are dropped.
    """
    found = np.asarray(statistics, dtype=np.float64)
    known = found[~np.isnan(found)]
    if not known.size or known.size < LEAST_DEFINED * found.size or np.ptp(known) <= SPREAD_TOLERANCE:
        return UNKNOWN
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _group(sums: Floats, sizes: Floats) -> tuple[Floats, Floats, NDArray[np.int64]] | None:
    """Group similar units: mean sum, size and number of each kind; None if grouping would lose too much variance."""
    deviations = sums - sizes * (sums.sum() / sizes.sum())
    kinds, codes = np.unique(sizes + 1j * sums, return_inverse=True)
    if kinds.size > MOST_GROUPS:
        distinct, of_size = np.unique(sizes, return_inverse=True)
        step_count = max(1, MOST_GROUPS // distinct.size)
        low, spread = deviations.min(), np.ptp(deviations) or 1.0
        steps = np.minimum((deviations - low) / spread * step_count, step_count - 1).astype(np.int64)
        _, codes = np.unique(of_size * step_count + steps, return_inverse=True)
    counts = np.bincount(codes)
    group_sums, group_sizes = (np.bincount(codes, weights=each) / counts for each in (sums, sizes))
    lost = np.square(sums - group_sums[codes]).sum()
    is_blurred = lost > MOST_VARIANCE_LOST * np.square(deviations).sum()
    return None if is_blurred else (group_sums, group_sizes, counts)


def _draw_counts(
    counts: NDArray[np.int64], resample_count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield how often each group is drawn, (resample, group), one chunk at a time."""
    chunk = max(1, CHUNK_CELLS // counts.size)
    for start in range(0, resample_count, chunk):
        yield rng.multinomial(counts.sum(), counts / counts.sum(), size=min(chunk, resample_count - start))


def _draw_units(sums: Floats, sizes: Floats, resample_count: int, rng: np.random.Generator) -> Floats:
    chunk = max(1, CHUNK_CELLS // sums.size)
    means = np.empty(resample_count)
    for start in range(0, resample_count, chunk):
        stop = min(start + chunk, resample_count)
        units = rng.integers(0, sums.size, (stop - start, sums.size))
        means[start:stop] = sums[units].sum(axis=1) / sizes[units].sum(axis=1)
    return means
