"""Means of many samples at once: `measure_mean` without a loop."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.intervals import SPREAD_TOLERANCE

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Means:
    """Fields of `Mean` for each sample; all (sample,), counts as floats."""

    n: Floats
    unit_count: Floats
    mean: Floats
    sd: Floats
    standard_error: Floats
    df: Floats

    @property
    def is_constant(self) -> NDArray[np.bool_]:
        """Whether the units of each sample do not vary: (sample,)."""
        return (self.unit_count >= 2) & (self.standard_error <= SPREAD_TOLERANCE)


def measure_means(values: Floats, clusters: Codes | None = None) -> Means:
    """Mean of each sample with its standard error.

    values: (sample, value), NaN where a sample lacks it. clusters: (value,), cluster of each, the same in all samples.
    See `measure_mean` for the estimators and for NaN.
    """
    is_known = ~np.isnan(values)
    n = is_known.sum(axis=1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(is_known, values, 0.0).sum(axis=1) / n
        residuals = np.where(is_known, values - mean[:, None], 0.0)
        sd = np.sqrt(np.square(residuals).sum(axis=1) / (n - 1.0))
        sd = np.where(n >= 2, sd, np.nan)
        if clusters is None:
            return Means(n, n, mean, sd, sd / np.sqrt(n), np.where(n >= 2, n - 1.0, np.nan))
        sums, sizes = sum_clusters(residuals, clusters), sum_clusters(is_known.astype(np.float64), clusters)
        unit_count = (sizes > 0).sum(axis=1).astype(np.float64)
        shares = sizes / n[:, None]
        variance = (np.square(sums / n[:, None]) / (1.0 - shares)).sum(axis=1)
        df = _degrees(shares, unit_count)
    few = unit_count < 2
    return Means(n, unit_count, mean, sd, np.where(few, np.nan, np.sqrt(variance)), np.where(few, np.nan, df))


def _degrees(shares: Floats, unit_count: Floats) -> Floats:
    """Degrees of freedom of Bell and McCaffrey, as in `measure_mean`. shares: (sample, cluster), of its values."""
    squares = np.square(shares)
    lost = squares / (1.0 - shares)
    spread = squares.sum(axis=1) + np.square(lost.sum(axis=1)) - np.square(lost).sum(axis=1)
    found: Floats = np.minimum(np.maximum(1.0, 1.0 / spread), unit_count - 1.0)
    return found


def sum_clusters(values: Floats, clusters: Codes) -> Floats:
    """Sums by cluster: (sample, cluster), in the order of the clusters' codes. values: (sample, value), no NaN."""
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    sums: Floats = np.add.reduceat(values[:, order], starts, axis=1) if starts.size else np.zeros((len(values), 0))
    return sums
