"""Intervals of means and rates: unknown ones are NaN, never of width 0."""

from dataclasses import dataclass
from math import isnan, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.rare_values import unseen_share

LEVEL = 0.95
SPREAD_TOLERANCE = 1e-12  # of a standard deviation: equal scores differ by the rounding error of a float sum


@dataclass(frozen=True, slots=True)
class Interval:
    """Confidence interval; both ends NaN if there are too few values."""

    low: float
    high: float

    @property
    def is_known(self) -> bool:
        return not isnan(self.low)

    def clipped(self, bounds: "Interval | None") -> "Interval":
        """Clip the interval to the range of the values."""
        if bounds is None or not self.is_known:
            return self
        return Interval(min(max(self.low, bounds.low), bounds.high), max(min(self.high, bounds.high), bounds.low))


UNKNOWN = Interval(nan, nan)
SCORES = Interval(0.0, 1.0)  # range of a score
DIFFERENCES = Interval(-1.0, 1.0)  # range of a difference of two scores


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean with the statistics for its interval and its test.

    n: values. unit_count: number of clusters, or of values without clusters. sd: of the sample of values.
    standard_error, df: of the mean, over the units. All NaN with fewer than two units; the mean is NaN if n is 0.
    skewness: of the units, NaN if it was not measured.
    """

    n: int
    unit_count: int
    mean: float
    sd: float
    standard_error: float
    df: float
    skewness: float = nan

    @property
    def is_constant(self) -> bool:
        """Whether units do not vary, so that the standard error is unknown."""
        return self.unit_count >= 2 and self.standard_error <= SPREAD_TOLERANCE


def measure_mean(values: ArrayLike, clusters: ArrayLike | None = None) -> Mean:
    """Mean of the values with its standard error, robust to correlation within clusters.

    values: (n,), no NaN. clusters: (n,), such as the case of an output. With clusters the standard error is CR2, with
    the degrees of freedom of Bell and McCaffrey (2002): G - 1 for G equal clusters, fewer for unequal ones. For
    clusters of one value each it is sd / sqrt(n), Student's.
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
    """Degrees of freedom of a mean over clusters: 2 E(V)^2 / Var(V), V the CR2 variance of equally distributed values.

    The covariance of two clusters' residual sums is -size x size / n, so no matrix is needed.
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
    """The t interval of a mean: Student's, or with clusters the cluster-robust one of `measure_mean`.

    See `mean_interval` for bounds and for constant samples.
    """
    return mean_interval(measure_mean(values, clusters), bounds=bounds, level=level)


def mean_interval(mean: Mean, *, bounds: Interval | None = None, level: float = LEVEL) -> Interval:
    """The t interval of a measured mean.

    bounds: range of a value, `SCORES` or `DIFFERENCES`; the interval is clipped to it. NaN with fewer than two units.
    If all units are equal, t has no width, which would claim certainty; the interval is then that of
    `constant_interval` with bounds, and NaN without.
    """
    if mean.unit_count < 2:
        return UNKNOWN
    if mean.is_constant:
        return UNKNOWN if bounds is None else constant_interval(mean.mean, mean.unit_count, bounds, level)
    from scipy.special import stdtrit

    margin = float(stdtrit(mean.df, (1 + level) / 2)) * mean.standard_error
    return Interval(mean.mean - margin, mean.mean + margin).clipped(bounds)


def constant_interval(value: float, n: int, bounds: Interval = SCORES, level: float = LEVEL) -> Interval:
    """Interval of the mean of n equal values: the rule of three (Hanley and Lippman-Hand 1983), exact form.

    With confidence `level`, at most a share p = 1 - (1 - level)^(1/n) of values, about 3/n at 95%, could have been
    different; the mean changes most if they are all at a bound. n = 20 scores of 1: 0.861..1.
    """
    if n < 2:
        return UNKNOWN
    share = float(unseen_share(n, 1.0 - level))
    return Interval(value - share * (value - bounds.low), value + share * (bounds.high - value)).clipped(bounds)


def wilson(successes: float, n: float, level: float = LEVEL) -> Interval:
    """Score interval of a rate (Wilson 1927), in 0..1; never of width 0, also at 0 of n and n of n.

    successes: 0..n. n: >= 0, may be the effective number of a clustered sample. NaN if n is 0.
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
    """Wilson's interval of the share of true values; with clusters, over their effective number.

    is_met: (n,), truth values. NaN without values, or with fewer than two clusters. See `worth_of_rate`.
    """
    met = np.asarray(is_met, dtype=np.float64)
    worth = worth_of_rate(met, clusters=clusters, level=level)
    return UNKNOWN if isnan(worth) or not met.size else wilson(float(met.mean()) * worth, worth, level)


def wilson_of(rate: Mean, level: float = LEVEL) -> Interval:
    """Wilson's interval of a measured rate, over its effective number of values; NaN with fewer than two units."""
    worth = _worth(rate, level)
    return UNKNOWN if isnan(worth) else wilson(rate.mean * worth, worth, level)


def worth_of_rate(is_met: ArrayLike, *, clusters: ArrayLike | None = None, level: float = LEVEL) -> float:
    """Effective number of independent values behind a rate: n, or less if values within a cluster are alike.

    is_met: (n,), truth values. The number is n over the design effect, the cluster-robust variance over p (1 - p) / n
    (Korn and Graubard 1998), with their t correction for few clusters, and at most n. NaN with fewer than two clusters.
    """
    met = np.asarray(is_met, dtype=np.float64)
    mean = measure_mean(met, clusters)
    return float(met.size) if clusters is None or mean.unit_count == mean.n else _worth(mean, level)


def _worth(mean: Mean, level: float) -> float:
    """Effective number of values behind the mean of truth values, see `worth_of_rate`."""
    if mean.unit_count < 2:
        return nan
    if mean.is_constant:  # the design effect of equal clusters is unknown: each counts as one value
        return float(mean.unit_count)
    from scipy.special import stdtrit

    quantile = (1 + level) / 2
    worth = mean.mean * (1 - mean.mean) / mean.standard_error**2
    worth *= float(stdtrit(mean.n - 1.0, quantile) / stdtrit(mean.df, quantile)) ** 2
    return min(worth, float(mean.n))
