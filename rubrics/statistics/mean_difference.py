"""Test and interval of a mean difference, by one method: p is below alpha exactly if the interval leaves out 0.

Each end of the interval is that of Student's t, cluster-robust (CR2, Bell and McCaffrey). An end on whose side fewer
than `FEW_AGAINST` cases moved is extended by what so many cases can't show: with 95% confidence, up to a share
1 - 0.05^(1/n) of further cases may lie at the bound of a difference (the rule of three of Hanley and Lippman-Hand
1983). So a sample without losses is no proof against rare heavy ones. bench/inference.py measures the error rates.
"""

from dataclasses import dataclass

import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.intervals import DIFFERENCES, LEVEL, Interval, Mean
from gradebook.rubrics.statistics.vectorised_means import Means

FEW_AGAINST = 5
TIED = 1e-9  # of a difference: the rounding error of a float sum


@dataclass(frozen=True, slots=True)
class Moved:
    """Number of cases whose pairs rose or fell in sum, of each sample."""

    risen: Floats
    fallen: Floats


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """p of a mean of 0, two-sided, and the interval of the mean, of each sample; NaN with fewer than two cases."""

    p: Floats
    low: Floats
    high: Floats


def count_moved(sums: Floats) -> Moved:
    """Count the cases that moved. sums: (..., case), of the differences of each case."""
    return Moved(
        (sums > TIED).sum(axis=-1).astype(np.float64), np.asarray((sums < -TIED).sum(axis=-1), dtype=np.float64)
    )


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
    with np.errstate(divide="ignore", invalid="ignore"):
        units = df + 1.0  # unequal cases count for fewer
        share = 1.0 - alpha ** (1.0 / units)
        far = np.where(value > 0, value - bounds.low, bounds.high - value)  # to the bound beyond 0
        unseen_p = np.where(np.abs(value) <= TIED, 1.0, (1.0 - np.abs(value) / far) ** units)
    is_thin_below, is_thin_above = (is_constant | (count < FEW_AGAINST) for count in (moved.fallen, moved.risen))
    t_low, t_high, t_p = (np.where(is_constant, else_, each) for each, else_ in ((low, value), (high, value), (p, 0.0)))
    low = np.where(is_thin_below, np.minimum(t_low, value - share * (value - bounds.low)), t_low)
    high = np.where(is_thin_above, np.maximum(t_high, value + share * (bounds.high - value)), t_high)
    is_thin = np.where(value > 0, is_thin_below, is_thin_above)
    p = np.minimum(1.0, chosen_from * np.where(is_thin, np.maximum(t_p, unseen_p), t_p))
    ends = (p, np.clip(low, bounds.low, bounds.high), np.clip(high, bounds.low, bounds.high))
    return MeanDifference(*(np.where(is_known, each, np.nan) for each in ends))


def skewness_of(sums: Floats) -> float:
    """Skewness (third standardised moment) of the cases' sums; NaN if they are equal or fewer than two."""
    if sums.size < 2 or np.ptp(sums) <= TIED:
        return float("nan")
    centred = sums - sums.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)
