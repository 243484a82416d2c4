"""Intervals of means and rates, of one sample or many at once: unknown ones are NaN, never of width 0.

Rare heavy values in means of values in a known range: how many there may be, seen and unseen.
Of n units none may show a kind of value that a share 1 - tail^(1/n) of further units has, with the confidence 1 - tail
(the rule of three of Hanley and Lippman-Hand 1983, exact). So an end of an interval is at least as far out as if such a
share lay at the bound of the values. Where a few units show heavy values, the end is that of Clopper and Pearson (1934)
on the two-point distribution with the mean, variance and skewness of the sample. For values that are two in fact, that
is the exact interval.
"""

from dataclasses import dataclass
from math import isnan, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats, cluster_sums

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
    array = np.asarray(values, dtype=np.float64)
    n = array.size
    if n == 0:
        return Mean(0, 0, nan, nan, nan, nan)
    mean = float(array.mean())
    residuals, sizes = cluster_sums(array - mean, clusters)
    unit_count = residuals.size
    sd = float(array.std(ddof=1)) if n >= 2 else nan
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


def t_quantile(degrees: float, level: float = LEVEL) -> float:
    """Half-width, in standard errors, of the interval of a mean by Student's t. degrees: of freedom; inf: normal."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


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
    margin = t_quantile(mean.df, level) * mean.standard_error
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
        df = _degrees_of_each(shares, unit_count)
    few = unit_count < 2
    return Means(n, unit_count, mean, sd, np.where(few, np.nan, np.sqrt(variance)), np.where(few, np.nan, df))


def _degrees_of_each(shares: Floats, unit_count: Floats) -> Floats:
    """Degrees of freedom of Bell and McCaffrey, as in `measure_mean`. shares: (sample, cluster), of its values."""
    squares = np.square(shares)
    lost = squares / (1.0 - shares)
    spread = squares.sum(axis=1) + np.square(lost.sum(axis=1)) - np.square(lost).sum(axis=1)
    degrees: Floats = np.minimum(np.maximum(1.0, 1.0 / spread), unit_count - 1.0)
    return degrees


def sum_clusters(values: Floats, clusters: Codes) -> Floats:
    """Sums by cluster: (sample, cluster), in the order of the clusters' codes. values: (sample, value), no NaN."""
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    sums: Floats = np.add.reduceat(values[:, order], starts, axis=1) if starts.size else np.zeros((len(values), 0))
    return sums


ALIKE = 16  # power of the sameness: values of half a normal distribution count as 2% alike, of a uniform one as 15%
ROUNDING = 1e-14  # of a variance, as a share of the mean square


@dataclass(frozen=True, slots=True)
class Shape:
    """Mean, standard deviation and skewness of the units of each sample, over n; skewness is NaN if all are equal.

    sameness: of values of 0 or more: 1 if all but those of 0 are equal, less the more they differ.
    """

    mean: Floats
    sd: Floats
    skewness: Floats
    sameness: Floats


def shape_of(values: Floats, count: Floats) -> Shape:
    """Shape of each sample. values: (..., unit), 0 where a sample lacks it; count: (...,), units that it has."""
    squares = values * values
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, square = values.sum(axis=-1) / count, squares.sum(axis=-1) / count
        variance = square - mean * mean
        variance = np.where(variance <= ROUNDING * square, 0.0, variance)
        cube = np.einsum("...i,...i->...", squares, values) / count
        skewness = (cube - mean * (3.0 * variance + mean * mean)) / np.where(variance > 0.0, variance, np.nan) ** 1.5
        return Shape(mean, np.sqrt(variance), skewness, square * square / (mean * cube))


def unseen_share(units: ArrayLike, tail: ArrayLike) -> Floats:
    """Largest share of further units of a kind of which no unit is, with the confidence 1 - tail."""
    return np.asarray(1.0 - np.asarray(tail, dtype=np.float64) ** (1.0 / np.asarray(units, dtype=np.float64)))


def two_point_margin(shape: Shape, units: Floats, tail: ArrayLike, certainty: ArrayLike, *, is_upper: bool) -> Floats:
    """Distance from the mean to the end of its two-point interval, 0 or more; 0 if all units are equal.

    units: effective number. tail: probability beyond the end. certainty: 1 for the exact end, which holds for every
    number of heavy units; 0 for one that holds on average over these numbers, which suffices where the other part of a
    difference blurs them. So do different values, the more as neither point is rare.
    """
    from scipy.special import betaincinv

    with np.errstate(invalid="ignore"):
        root = np.sqrt(shape.skewness**2 + 4.0)
        share = (1.0 - shape.skewness / root) / 2.0  # of the higher point
        rarity = 1.0 - (4.0 * share * (1.0 - share)) ** 2
        jump = 0.5 + 0.5 * np.asarray(certainty) * np.fmax(rarity, shape.sameness**ALIKE)
        high, low = share * units, (1.0 - share) * units
        if is_upper:
            end = betaincinv(high + jump, low + 1.0 - jump, 1.0 - np.asarray(tail))
        else:
            end = betaincinv(high + 1.0 - jump, low + jump, tail)
        margin = shape.sd * root * np.abs(end - share)
    return np.asarray(np.where(np.isnan(margin), 0.0, margin))
