"""Intervals on means and rates: what is unknown is NaN, never a width of 0."""

from dataclasses import dataclass
from math import isnan, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.clusters import cluster_sums

LEVEL = 0.95
SPREAD_TOLERANCE = 1e-12  # of a standard deviation: equal scores differ by what a float sum can be off


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval; both ends NaN where there are too few values to know."""

    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there were enough values."""
        return not isnan(self.low)

    def clipped(self, bounds: "Interval | None") -> "Interval":
        """Held to what the values can be."""
        if bounds is None or not self.is_known:
            return self
        return Interval(min(max(self.low, bounds.low), bounds.high), max(min(self.high, bounds.high), bounds.low))


UNKNOWN = Interval(nan, nan)
SCORES = Interval(0.0, 1.0)  # what a score can be
DIFFERENCES = Interval(-1.0, 1.0)  # what a difference of two scores can be


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with what its interval and its test rest on.

    n: values. unit_count: the clusters, or the values where there are none. sd: of the sample of values.
    standard_error, df: of the mean, over the units. All NaN where there are under two units, as the mean where n is 0.
    """

    n: int
    unit_count: int
    mean: float
    sd: float
    standard_error: float
    df: float

    @property
    def is_constant(self) -> bool:
        """Whether nothing varies from unit to unit, so that no standard error can be told."""
        return self.unit_count >= 2 and self.standard_error <= SPREAD_TOLERANCE


def measure_mean(values: ArrayLike, clusters: ArrayLike | None = None) -> Mean:
    """The mean of the values with its standard error, robust to what the values of a cluster share.

    values: (n,), no NaN. clusters: (n,), such as the case that an output answers. With them the standard error is CR2
    over the clusters, with the degrees of freedom of Bell and McCaffrey (2002): G - 1 of G equal clusters, fewer where
    some are larger than others. Of clusters of one value each it is sd / sqrt(n), Student's.
    """
    found = np.asarray(values, dtype=np.float64)
    n = found.size
    if n == 0:
        return Mean(0, 0, nan, nan, nan, nan)
    mean = float(found.mean())
    residuals, sizes = cluster_sums(found - mean, clusters)
    unit_count = residuals.size
    sd = float(found.std(ddof=1)) if n >= 2 else nan
    if unit_count < 2:
        return Mean(n, unit_count, mean, sd, nan, nan)
    variance = float(np.square(residuals / n) @ (1.0 / (1.0 - sizes / n)))
    return Mean(n, unit_count, mean, sd, sqrt(variance), _degrees(sizes))


def _degrees(sizes: NDArray[np.float64]) -> float:
    """Of a mean over clusters of these sizes: 2 E(V)^2 / Var(V) of the CR2 variance V of values that are alike.

    The covariance of two clusters' residual sums is -size x size / n, so that no matrix is needed.
    """
    most = sizes.size - 1.0
    if np.ptp(sizes) == 0:
        return most
    n = sizes.sum()
    shared = sizes**2 / (1.0 - sizes / n) / n**2
    squares = (sizes**2).sum() / n**4 + (shared.sum() ** 2 - (shared**2).sum()) / n**2
    return min(max(1.0, float(n**-2.0 / squares)), most)


def student_t(
    values: ArrayLike, *, clusters: ArrayLike | None = None, bounds: Interval | None = None, level: float = LEVEL
) -> Interval:
    """The t interval on a mean: Student's, and with clusters the cluster-robust one of `measure_mean`.

    See `mean_interval` for bounds and for what a constant sample gives.
    """
    return mean_interval(measure_mean(values, clusters), bounds=bounds, level=level)


def mean_interval(mean: Mean, *, bounds: Interval | None = None, level: float = LEVEL) -> Interval:
    """The interval on a mean that was measured.

    bounds: what a value can be, `SCORES` or `DIFFERENCES`; the interval is held to them. NaN under two units. Where all
    units are equal t has no width, which would claim to know; with bounds the interval is then that of
    `constant_interval`, without them NaN.
    """
    if mean.unit_count < 2:
        return UNKNOWN
    if mean.is_constant:
        return UNKNOWN if bounds is None else constant_interval(mean.mean, mean.unit_count, bounds, level)
    from scipy.special import stdtrit

    margin = float(stdtrit(mean.df, (1 + level) / 2)) * mean.standard_error
    return Interval(mean.mean - margin, mean.mean + margin).clipped(bounds)


def constant_interval(value: float, n: int, bounds: Interval = SCORES, level: float = LEVEL) -> Interval:
    """What n equal values say of the mean: the rule of three (Hanley and Lippman-Hand 1983), exact form.

    With confidence `level` at most a share p = 1 - (1 - level)^(1/n) of values, about 3/n at 95%, would have been other
    ones; the mean is then furthest off where they all stand at a bound. n = 20 scores of 1: 0.861..1.
    """
    if n < 2:
        return UNKNOWN
    share = 1.0 - (1.0 - level) ** (1.0 / n)
    return Interval(value - share * (value - bounds.low), value + share * (bounds.high - value)).clipped(bounds)


def wilson(successes: float, n: float, level: float = LEVEL) -> Interval:
    """The score interval on a rate (Wilson 1927), in 0..1; never of width 0, also at 0 of n and n of n.

    successes: 0..n. n: >= 0, may be the effective number of a clustered sample. NaN where n is 0.
    """
    if n <= 0:
        return UNKNOWN
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    margin = z / (1 + z * z / n) * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return Interval(max(0.0, centre - margin), min(1.0, centre + margin))


def rate_interval(is_met: ArrayLike, *, clusters: ArrayLike | None = None, level: float = LEVEL) -> Interval:
    """Wilson's interval on the share of what is met; with clusters on the number that they are worth.

    is_met: (n,), truth values. NaN where there are no values, or clusters but under two. See `worth_of_rate`.
    """
    met = np.asarray(is_met, dtype=np.float64)
    worth = worth_of_rate(met, clusters=clusters, level=level)
    return UNKNOWN if isnan(worth) or not met.size else wilson(float(met.mean()) * worth, worth, level)


def worth_of_rate(is_met: ArrayLike, *, clusters: ArrayLike | None = None, level: float = LEVEL) -> float:
    """How many independent values a rate rests on: n, or fewer where the values of a cluster are alike.

    is_met: (n,), truth values. It is n over the design effect, the cluster-robust variance over p (1 - p) / n (Korn and
    Graubard 1998), with their correction by t for few clusters, and never more than n. NaN under two clusters.
    """
    met = np.asarray(is_met, dtype=np.float64)
    mean = measure_mean(met, clusters)
    if clusters is None or mean.unit_count == mean.n:
        return float(met.size)
    if mean.unit_count < 2:
        return nan
    if mean.is_constant:  # equal clusters tell no design effect: each counts as one value
        return float(mean.unit_count)
    from scipy.special import stdtrit

    quantile = (1 + level) / 2
    worth = mean.mean * (1 - mean.mean) / mean.standard_error**2
    worth *= float(stdtrit(mean.n - 1.0, quantile) / stdtrit(mean.df, quantile)) ** 2
    return min(worth, float(mean.n))
