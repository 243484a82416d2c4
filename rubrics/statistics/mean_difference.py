"""Test and interval of a mean difference, by one method: p is below alpha exactly if the interval leaves out 0.

Each end of the interval is that of Student's t, cluster-robust (CR2, Bell and McCaffrey). An end on whose side fewer
than `FEW_AGAINST` cases moved is extended by what so many cases can't show: with 95% confidence, up to a share
1 - 0.05^(1/n) of further cases may lie at the bound of a difference (the rule of three of Hanley and Lippman-Hand
1983). So a sample without losses is no proof against rare heavy ones. Each end is that of t transformed by the skewness
of the differences (Hall 1992) where this one is farther out: t alone believes a few heavy losses too little.
bench/inference.py measures the error rates.
"""

from dataclasses import dataclass

import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.intervals import DIFFERENCES, LEVEL, Interval, Mean
from gradebook.rubrics.statistics.vectorised_means import Means

FEW_AGAINST = 5
WIDEST = 2.0  # times the margin of t, where Hall's goes too far: the exact one of three rare events is 1.7 times t's
STRAIGHT = 1e-6  # of the skewness over the root of the cases: t as it is
TIED = 1e-9  # of a difference: the rounding error of a float sum


@dataclass(frozen=True, slots=True)
class Moved:
    """Number of cases whose pairs rose or fell in sum, of each sample; skewness of the cases' sums, NaN if equal.

    units: effective number of cases, if not one more than the degrees of freedom: unequal cases count for fewer.
    """

    risen: Floats
    fallen: Floats
    skewness: Floats
    units: Floats | None = None


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """p of a mean of 0, two-sided, and the interval of the mean, of each sample; NaN with fewer than two cases."""

    p: Floats
    low: Floats
    high: Floats


def count_moved(sums: Floats) -> Moved:
    """Count the cases that moved. sums: (..., case), of the differences of each case; NaN where a sample lacks it."""
    risen, fallen = ((sign * sums > TIED).sum(axis=-1) for sign in (1.0, -1.0))
    return Moved(np.asarray(risen, np.float64), np.asarray(fallen, np.float64), skewness_of(sums))


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
    from scipy.special import stdtr, stdtrit

    value, error, df = (np.asarray(each, dtype=np.float64) for each in (mean.mean, mean.standard_error, mean.df))
    is_constant, is_known = np.asarray(mean.is_constant), np.asarray(mean.unit_count) >= 2
    alpha = (1.0 - level) / chosen_from
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = stdtrit(df, 1.0 - alpha / 2.0) * error
        p = 2.0 * stdtr(df, -np.abs(value) / error)
    low, high = value - margin, value + margin
    if bounds is None:
        p, low, high = (np.where(is_constant, np.nan, each) for each in (p, low, high))
        return MeanDifference(
            *(np.where(is_known, each, np.nan) for each in (np.minimum(1.0, chosen_from * p), low, high))
        )
    units = df + 1.0 if moved.units is None else moved.units
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1.0 - alpha ** (1.0 / units)
        far = np.where(value > 0, value - bounds.low, bounds.high - value)  # to the bound beyond 0
        unseen_p = np.where(np.abs(value) <= TIED, 1.0, (1.0 - np.abs(value) / far) ** units)
    is_thin_below, is_thin_above = (is_constant | (count < FEW_AGAINST) for count in (moved.fallen, moved.risen))
    t_low, t_high, t_p = (np.where(is_constant, else_, each) for each, else_ in ((low, value), (high, value), (p, 0.0)))
    skew_p, skew_low, skew_high = _by_skewness(value, error, df, moved.skewness / np.sqrt(units), alpha)
    t_p, t_low, t_high = np.fmax(t_p, skew_p), np.fmin(t_low, skew_low), np.fmax(t_high, skew_high)
    low = np.where(is_thin_below, np.minimum(t_low, value - share * (value - bounds.low)), t_low)
    high = np.where(is_thin_above, np.maximum(t_high, value + share * (bounds.high - value)), t_high)
    is_thin = np.where(value > 0, is_thin_below, is_thin_above)
    p = np.minimum(1.0, chosen_from * np.where(is_thin, np.maximum(t_p, unseen_p), t_p))
    ends = (p, np.clip(low, bounds.low, bounds.high), np.clip(high, bounds.low, bounds.high))
    return MeanDifference(*(np.where(is_known, each, np.nan) for each in ends))


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


def _by_skewness(value: Floats, error: Floats, df: Floats, a: Floats, alpha: float) -> tuple[Floats, ...]:
    """p, low and high by Hall's (1992) transformation of t; NaN where the differences are symmetric.

    T = (x^3 - 1) / a + a / 6 with x = 1 + a t / 3 is nearly normal, and rises with t. a: skewness over the root of the
    cases. Each end is at most `WIDEST` times as far as that of t.
    """
    from scipy.special import stdtr, stdtrit

    a = np.where(np.abs(a) < STRAIGHT, np.nan, a)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = value / error
        transformed = ((1.0 + a * t / 3.0) ** 3 - 1.0) / a + a / 6.0
        critical = stdtrit(df, 1.0 - alpha / 2.0)
        least, most = (3.0 / a * (np.cbrt(1.0 + a * (side - a / 6.0)) - 1.0) for side in (-critical, critical))
        low = value - error * np.minimum(most, WIDEST * critical)
        high = value - error * np.maximum(least, -WIDEST * critical)
        towards = np.maximum(transformed * np.sign(value), np.abs(t) / WIDEST)
    return 2.0 * stdtr(df, -towards), low, high
