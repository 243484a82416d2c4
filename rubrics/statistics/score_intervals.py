"""Intervals on means of scores in a known range, pass rates included: one formula for the tables and for Python.

A mean m of scores in 0..1 is worth as many trials of a rate as have its variance: m (1 - m) / SE^2, the effective
sample size of Korn and Graubard (1998). Its interval is the exact one of Clopper and Pearson (1934) on that many
trials, which need not be whole; independent scores of 0 and 1 are n trials. Each end is at least as far out as those of
`rare_values`: scores close together have a variance that says nothing of rare bad ones. docs/inference-intervals.md has
the coverage.
"""

from dataclasses import replace
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.intervals import (
    LEVEL,
    SCORES,
    SPREAD_TOLERANCE,
    UNKNOWN,
    Interval,
    Mean,
    measure_mean,
)
from gradebook.rubrics.statistics.mean_difference import skewness_of
from gradebook.rubrics.statistics.rare_values import Shape, two_point_margin, unseen_share
from gradebook.rubrics.statistics.vectorised_means import Means

MOST_WORTH = 1e7  # trials from which the exact interval equals the normal one to 6 decimals


def score_interval(
    values: ArrayLike, clusters: ArrayLike | None = None, *, bounds: Interval = SCORES, level: float = LEVEL
) -> Interval:
    """The interval on the mean of scores or of truth values, as in the tables.

    values: (n,), no NaN, within bounds. clusters: (n,), such as the case of an output. NaN with fewer than two values
    or clusters.
    """
    return score_interval_of(measure_scores(values, clusters), bounds=bounds, level=level)


def score_interval_of(found: Mean, *, bounds: Interval = SCORES, level: float = LEVEL) -> Interval:
    """The interval of `score_interval` on a measured mean."""
    if found.unit_count < 2:
        return UNKNOWN
    least, width = bounds.low, bounds.high - bounds.low
    means = Means(
        np.array([float(found.n)]),
        np.array([float(found.unit_count)]),
        np.array([(found.mean - least) / width]),
        np.array([found.sd / width]),
        np.array([found.standard_error / width]),
        np.array([found.df]),
    )
    low, high = score_ends(means, np.array([found.skewness]), level=level)
    return Interval(least + width * float(low[0]), least + width * float(high[0]))


def measure_scores(values: ArrayLike, clusters: ArrayLike | None = None) -> Mean:
    """`measure_mean` with skewness, and a standard error that is also right where few clusters have most of the values.

    The CR2 error is small where the large clusters happen to be alike. The error of equally correlated values in each
    cluster, with the correlation of the sample (analysis of variance), is not; the larger of the two is taken.
    """
    mean = measure_mean(values, clusters)
    if mean.unit_count < 2:
        return mean
    sums, sizes = cluster_sums(np.asarray(values, dtype=np.float64) - mean.mean, clusters)
    mean = replace(mean, skewness=float(skewness_of(sums)))
    if mean.unit_count == mean.n:
        return mean
    between = float((sums**2 / sizes).sum())
    within = max(0.0, mean.sd**2 * (mean.n - 1) - between) / (mean.n - mean.unit_count)
    between /= mean.unit_count - 1
    usual_size = float((sizes**2).sum()) / mean.n
    spread_size = (mean.n - usual_size) / (mean.unit_count - 1)
    total = between + (spread_size - 1) * within
    correlation = min(max((between - within) / total, 0.0), 1.0) if total > 0 else 0.0
    shared_error = mean.sd * sqrt((1 + (usual_size - 1) * correlation) / mean.n)
    return replace(mean, standard_error=max(mean.standard_error, shared_error))


def score_ends(means: Means, skewness: Floats, *, level: ArrayLike = LEVEL) -> tuple[Floats, Floats]:
    """Both ends of the intervals on many means of scores in 0..1: (sample,), NaN with fewer than two units.

    means: standard_error and df as of `measure_scores`. skewness: (sample,), of the units, NaN if unknown. Each end is
    the farthest out of three: of `worth_ends`; of a share of units at that end of 0..1 that so many units can't show;
    of the two-point distribution with this mean, variance and skewness.
    """
    low, high = worth_ends(means, level=level)
    unit_count, mean = means.unit_count, means.mean
    if not (unit_count >= 2).any():
        return low, high
    tail = (1.0 - np.asarray(level, dtype=np.float64)) / 2.0
    shape = Shape(
        mean, means.standard_error * np.sqrt(np.maximum(unit_count - 1.0, 0.0)), skewness, np.zeros_like(mean)
    )
    below, above = (two_point_margin(shape, unit_count, tail, 1.0, is_upper=upper) for upper in (False, True))
    with np.errstate(divide="ignore", invalid="ignore"):
        unseen = unseen_share(unit_count, tail)
    low = np.minimum(low, np.minimum(mean - below, mean - unseen * mean))
    high = np.maximum(high, np.maximum(mean + above, mean + unseen * (1.0 - mean)))
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def worth_ends(means: Means, *, level: ArrayLike = LEVEL) -> tuple[Floats, Floats]:
    """Both ends by the effective sample size alone, which take the variance for all that there is to know.

    The t correction: a rate has the variance of
    its mean, so its quantile is normal; the variance of other scores is estimated, so theirs is Student's t. Between
    them it goes by the share of the variance that a rate of this mean would have. Where all units are equal, the
    interval is that of as many trials as units, all met or none, drawn to either bound.
    """
    n, unit_count, mean, standard_error = means.n, means.unit_count, means.mean, means.standard_error
    is_known = unit_count >= 2
    if not is_known.any():  # as of a single output: scipy takes a quarter of a second to import
        return np.full(len(n), np.nan), np.full(len(n), np.nan)
    from scipy.special import betaincinv, ndtri, stdtrit

    tail = (1.0 - np.asarray(level, dtype=np.float64)) / 2.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_rate = (n - 1.0) / n  # variance of a rate over that of its sample
        share = np.clip(means.sd**2 * of_rate / (mean * (1.0 - mean)), 0.0, 1.0)
        normal, student = -ndtri(tail), -stdtrit(means.df, tail)
        quantile = student * np.sqrt(share * of_rate * (normal / stdtrit(n - 1.0, tail)) ** 2 + 1.0 - share)
        worth = mean * (1.0 - mean) * (normal / quantile / standard_error) ** 2
        met, missed = mean * worth, (1.0 - mean) * worth
        low, high = betaincinv(met, missed + 1.0, tail), betaincinv(met + 1.0, missed, 1.0 - tail)
        margin = quantile * standard_error
        is_large = worth > MOST_WORTH
        low, high = np.where(is_large, mean - margin, low), np.where(is_large, mean + margin, high)
        is_constant = (standard_error <= SPREAD_TOLERANCE) | (mean <= 0.0) | (mean >= 1.0)
        drawn = tail ** (1.0 / unit_count)
        low = np.where(is_constant, mean * drawn, low)
        high = np.where(is_constant, 1.0 - (1.0 - mean) * drawn, high)
    return tuple(np.where(is_known, np.clip(end, 0.0, 1.0), np.nan) for end in (low, high))  # type: ignore[return-value]
