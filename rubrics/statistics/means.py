"""Means of scores and of differences: their tests and intervals.

Test and interval of a mean difference, by one method: p is below alpha exactly if the interval leaves out 0.
Each end of the interval is the farthest out of three:

t         Student's, cluster-robust (CR2, Bell and McCaffrey)
unseen    so many cases can't show a share of 1 - 0.025^(1/n) of cases at the bound of a difference (the rule of three,
          on each side): no sample is proof against rarer losses, whatever the size of the differences that it shows
seen      gains and losses apart, each with the interval of `two_point_margin`, combined by MOVER (Zou and Donner
          2008): t alone believes a few heavy losses too little

The differences are assumed to have a range, and nothing else. bench/inference.py measures error rates and power.

Intervals on means of scores in a known range, pass rates included: one formula for the tables and for Python.
A mean m of scores in 0..1 is worth as many trials of a rate as have its variance: m (1 - m) / SE^2, the effective
sample size of Korn and Graubard (1998). Its interval is the exact one of Clopper and Pearson (1934) on that many
trials, which need not be whole; independent scores of 0 and 1 are n trials. Each end is at least as far out as those of
`two_point_margin`: scores close together have a variance that says nothing of rare bad ones.
docs/inference-intervals.md has the coverage.
"""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats, cluster_sums
from gradebook.rubrics.statistics.intervals import (
    DIFFERENCES,
    LEVEL,
    SCORES,
    SPREAD_TOLERANCE,
    UNKNOWN,
    Interval,
    Mean,
    Means,
    Shape,
    measure_mean,
    shape_of,
    two_point_margin,
    unseen_share,
)

TIED = 1e-9  # of a difference: the rounding error of a float sum
_LEAST_TAIL, _MOST_STEPS, _CLOSE = 1e-300, 60, 1e-13


@dataclass(frozen=True, slots=True)
class Moved:
    """Number of cases whose pairs rose or fell in sum, of each sample; skewness of the cases' sums, NaN if equal.

    gains, losses: of all cases, the sums above and below 0, as values of 0 or more. case_count: number of cases.
    units: effective number of cases, if not one more than the degrees of freedom: unequal cases count for fewer.
    """

    risen: Floats
    fallen: Floats
    skewness: Floats
    gains: Shape
    losses: Shape
    case_count: Floats
    units: Floats | None = None

    @property
    def mirrored(self) -> "Moved":
        """The same with gains for losses."""
        return replace(
            self,
            risen=self.fallen,
            fallen=self.risen,
            skewness=-self.skewness,
            gains=self.losses,
            losses=self.gains,
        )


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """p of a mean of 0, two-sided, and the interval of the mean, of each sample; NaN with fewer than two cases."""

    p: Floats
    low: Floats
    high: Floats


def count_moved(sums: Floats) -> Moved:
    """Count the cases that moved. sums: (..., case), of the differences of each case; NaN where a sample lacks it."""
    risen, fallen = (np.asarray((sign * sums > TIED).sum(axis=-1), np.float64) for sign in (1.0, -1.0))
    count = np.asarray((~np.isnan(sums)).sum(axis=-1), np.float64)
    gains, losses = (shape_of(np.fmax(sign * sums, 0.0), count) for sign in (1.0, -1.0))
    return Moved(risen, fallen, skewness_of(sums), gains, losses, count)


def measure_difference(
    mean: Mean | Means,
    moved: Moved,
    bounds: Interval | None = DIFFERENCES,
    *,
    level: float = LEVEL,
    chosen_from: float = 1,
) -> MeanDifference:
    """Test a mean difference, or one of each sample.

    bounds: range of a difference; None if it is unbounded, so that only t applies. chosen_from: number of runs among
    which side A was chosen for its scores: p is multiplied by it, and the interval has the level 1 - (1 - level) /
    chosen_from, so that both hold whichever was chosen (Bonferroni).
    """
    value, error, df = (np.asarray(field, dtype=np.float64) for field in (mean.mean, mean.standard_error, mean.df))
    is_constant, is_known = np.asarray(mean.is_constant), np.asarray(mean.unit_count) >= 2
    tail = np.asarray((1.0 - level) / chosen_from / 2.0)
    if not is_known.any():
        return MeanDifference(*(np.full(value.shape, np.nan) for _ in range(3)))
    up = _Side(value, error, df, is_constant, moved, None if bounds is None else bounds.low)
    down = _Side(-value, error, df, is_constant, moved.mirrored, None if bounds is None else -bounds.high)
    low, high = value - up.margin(tail), value + down.margin(tail)
    p = np.minimum(1.0, 2.0 * chosen_from * np.where(value > 0, up.tail(), down.tail()))
    if bounds is None:
        is_known = is_known & ~is_constant
    else:
        low, high = np.clip(low, bounds.low, bounds.high), np.clip(high, bounds.low, bounds.high)
    return MeanDifference(*(np.where(is_known, figure, np.nan) for figure in (p, low, high)))


def lower_ends(means: Means, moved: Moved, bounds: Interval = DIFFERENCES, *, level: float = LEVEL) -> Floats:
    """Lower ends alone of the intervals of `measure_difference`, which takes ten times as long for p."""
    value, is_constant = np.asarray(means.mean, dtype=np.float64), np.asarray(means.is_constant)
    side = _Side(value, means.standard_error, means.df, is_constant, moved, bounds.low)
    return np.asarray(np.clip(value - side.margin(np.asarray((1.0 - level) / 2.0)), bounds.low, bounds.high))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of the intervals of some means: how far they reach down. bound: of a difference; None: there is none."""

    value: Floats
    error: Floats
    df: Floats
    is_constant: NDArray[np.bool_]
    moved: Moved
    bound: float | None

    @property
    def units(self) -> Floats:
        return self.df + 1.0 if self.moved.units is None else self.moved.units

    def margin(self, tail: Floats) -> Floats:
        """Distance from the mean to the lower end that is above the true mean with the probability tail."""
        from scipy.special import stdtrit

        with np.errstate(invalid="ignore"):
            of_t = np.where(self.is_constant, 0.0, -stdtrit(self.df, tail) * self.error)
            if self.bound is None:
                return np.asarray(of_t)
            unseen = unseen_share(self.units, tail) * (self.value - self.bound)
            return np.asarray(np.fmax(np.fmax(of_t, unseen), self.seen_margin(tail)))

    def seen_margin(self, tail: Floats) -> Floats:
        """Margin of the gains and losses that the cases show."""
        gains, losses = self.moved.gains, self.moved.losses
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = gains.sd**2 + losses.sd**2 + 2.0 * gains.mean * losses.mean
            share = losses.sd**2 / (gains.sd**2 + losses.sd**2)
            fall = two_point_margin(losses, self.units, tail, share, is_upper=True)
            less = two_point_margin(gains, self.units, tail, 1.0 - share, is_upper=False)
            both = gains.mean * losses.mean / (gains.sd * losses.sd)  # a case that rose did not fall
            together = np.sqrt(fall**2 + less**2 + np.where(np.isnan(both), 0.0, 2.0 * both * fall * less))
            scale = self.error * np.sqrt((self.moved.case_count - 1.0) / variance)  # 1 where cases are single pairs
            return np.asarray(np.where(self.is_constant, 0.0, together * scale))

    def tail(self) -> Floats:
        """Largest tail at which the lower end is at most 0, at most 1/2; of a mean above 0."""
        from scipy.special import stdtr

        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.where(self.is_constant, 0.0, stdtr(self.df, -np.abs(self.value) / self.error))
            if self.bound is not None:
                probability = np.fmax(probability, (self.bound / (self.bound - self.value)) ** self.units)
        probability = np.where(self.value <= TIED, 0.5, np.minimum(probability, 0.5))
        if self.bound is None:
            return np.asarray(probability)
        return np.asarray(self._seen_tail(probability))

    def _seen_tail(self, other: Floats) -> Floats:
        """The larger one of another tail and of that at which `seen_margin` is the mean, by the Illinois method."""
        from scipy.special import ndtr, ndtri

        near, far = np.zeros_like(other), -ndtri(np.maximum(other, _LEAST_TAIL))  # quantiles of the normal distribution
        near_gap, far_gap = (self.seen_margin(ndtr(-z)) - self.value for z in (near, far))
        root, was_near = np.where(far_gap > 0.0, near, far), np.zeros(other.shape)
        is_open = (near_gap < 0.0) & (far_gap > 0.0)
        for _ in range(_MOST_STEPS):
            if not is_open.any():
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                root = np.where(is_open, far - far_gap * (far - near) / (far_gap - near_gap), root)
            gap = self.seen_margin(ndtr(-root)) - self.value
            is_near = np.where(gap < 0.0, 1.0, -1.0)
            repeats = np.where(is_near == was_near, 0.5, 1.0)  # the end that stays has half its gap: no slow creep
            near_gap, far_gap = (
                np.where(is_near > 0, gap, repeats * near_gap),
                np.where(is_near > 0, repeats * far_gap, gap),
            )
            near, far = np.where(is_near > 0, root, near), np.where(is_near > 0, far, root)
            was_near = is_near
            is_open = is_open & (np.abs(gap) > _CLOSE) & (far - near > _CLOSE)
        return np.asarray(np.fmax(other, ndtr(-root)))


def skewness_of(sums: Floats) -> Floats:
    """Skewness (third standardised moment) over the last axis; NaN if all are equal or fewer than two."""
    is_known = ~np.isnan(sums)
    n = is_known.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(is_known, sums, 0.0).sum(axis=-1, keepdims=True) / n
        centred = np.where(is_known, sums - means, 0.0)
        is_equal = np.abs(centred).max(axis=-1, initial=0.0) <= TIED
        squares = np.where(is_equal, np.nan, (centred**2).sum(axis=-1) / n[..., 0])
        return np.asarray((centred**3).sum(axis=-1) / n[..., 0] / squares**1.5)


MOST_WORTH = 1e7  # trials from which the exact interval equals the normal one to 6 decimals


def score_interval(
    values: ArrayLike, clusters: ArrayLike | None = None, *, bounds: Interval = SCORES, level: float = LEVEL
) -> Interval:
    """The interval on the mean of scores or of truth values, as in the tables.

    values: (n,), no NaN, within bounds. clusters: (n,), such as the case of an output. NaN with fewer than two values
    or clusters.
    """
    return score_interval_of(measure_scores(values, clusters), bounds=bounds, level=level)


def score_interval_of(mean: Mean, *, bounds: Interval = SCORES, level: float = LEVEL) -> Interval:
    """The interval of `score_interval` on a measured mean."""
    if mean.unit_count < 2:
        return UNKNOWN
    least, width = bounds.low, bounds.high - bounds.low
    means = Means(
        np.array([float(mean.n)]),
        np.array([float(mean.unit_count)]),
        np.array([(mean.mean - least) / width]),
        np.array([mean.sd / width]),
        np.array([mean.standard_error / width]),
        np.array([mean.df]),
    )
    low, high = score_ends(means, np.array([mean.skewness]), level=level)
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
    """Both ends by the effective sample size alone, from the mean and the variance.

    The t correction: a rate has the variance of its mean, so its quantile is normal; the variance of other scores is
    estimated, so theirs is Student's t. The correction goes from one to the other by the share of the variance that a
    rate of this mean would have. Where all units are equal, the interval is that of as many trials as units, all met or
    none, drawn to either bound.
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
