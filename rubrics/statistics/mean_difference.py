"""Test and interval of a mean difference, by one method: p is below alpha exactly if the interval leaves out 0.

Each end of the interval is the farthest out of three:

t         Student's, cluster-robust (CR2, Bell and McCaffrey)
unseen    so many cases can't show a share of 1 - 0.025^(1/n) of cases at the bound of a difference (the rule of three,
          on each side): no sample is proof against rarer losses, whatever the size of the differences that it shows
seen      gains and losses apart, each with the two-point interval of `rare_values`, combined by MOVER (Zou and Donner
          2008): t alone believes a few heavy losses too little

Nothing else is assumed of the differences but their range. bench/inference.py measures error rates and power.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.intervals import DIFFERENCES, LEVEL, Interval, Mean
from gradebook.rubrics.statistics.rare_values import Shape, shape_of, two_point_margin, unseen_share
from gradebook.rubrics.statistics.vectorised_means import Means

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
    value, error, df = (np.asarray(each, dtype=np.float64) for each in (mean.mean, mean.standard_error, mean.df))
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
    return MeanDifference(*(np.where(is_known, each, np.nan) for each in (p, low, high)))


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
            found = np.where(self.is_constant, 0.0, stdtr(self.df, -np.abs(self.value) / self.error))
            if self.bound is not None:
                found = np.fmax(found, (self.bound / (self.bound - self.value)) ** self.units)
        found = np.where(self.value <= TIED, 0.5, np.minimum(found, 0.5))
        if self.bound is None:
            return np.asarray(found)
        return np.asarray(self._seen_tail(found))

    def _seen_tail(self, other: Floats) -> Floats:
        """The larger one of another tail and of that at which `seen_margin` is the mean, by the Illinois method."""
        from scipy.special import ndtr, ndtri

        near, far = np.zeros_like(other), -ndtri(np.maximum(other, _LEAST_TAIL))  # quantiles of the normal distribution
        near_gap, far_gap = (self.seen_margin(ndtr(-z)) - self.value for z in (near, far))
        found, was_near = np.where(far_gap > 0.0, near, far), np.zeros(other.shape)
        is_open = (near_gap < 0.0) & (far_gap > 0.0)
        for _ in range(_MOST_STEPS):
            if not is_open.any():
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.where(is_open, far - far_gap * (far - near) / (far_gap - near_gap), found)
            gap = self.seen_margin(ndtr(-found)) - self.value
            is_near = np.where(gap < 0.0, 1.0, -1.0)
            repeats = np.where(is_near == was_near, 0.5, 1.0)  # the end that stays has half its gap: no slow creep
            near_gap, far_gap = (
                np.where(is_near > 0, gap, repeats * near_gap),
                np.where(is_near > 0, repeats * far_gap, gap),
            )
            near, far = np.where(is_near > 0, found, near), np.where(is_near > 0, far, found)
            was_near = is_near
            is_open = is_open & (np.abs(gap) > _CLOSE) & (far - near > _CLOSE)
        return np.asarray(np.fmax(other, ndtr(-found)))


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
