"""Which of two sides is steadier: the ratio of the standard deviations of paired scores, with its interval."""

from dataclasses import dataclass, fields
from math import log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.chance import Chance, chance_of_interval
from gradebook.rubrics.statistics.mean_difference import TIED
from gradebook.rubrics.statistics.strata import Strata, measure_strata

LEAST_CASES = 8  # below, the interval covers less than it says


@dataclass(frozen=True, slots=True)
class SpreadFigures:
    """Standard deviations of the scores of n pairs. sd_ratio: sd_b over sd_a; None if one is 0 or cases are few."""

    sd_a: float | None
    sd_b: float | None
    sd_ratio: float | None
    sd_ratio_low: float | None
    sd_ratio_high: float | None

    @property
    def outcome(self) -> Chance:
        """Whether B spreads more (ABOVE) or less (BELOW) than A beyond chance."""
        return chance_of_interval(self.sd_ratio_low, self.sd_ratio_high, by_chance=1.0)


SPREAD_FIGURES = tuple(field.name for field in fields(SpreadFigures))


def measure_spread(
    scores_a: ArrayLike, scores_b: ArrayLike, cases: NDArray[np.int64], strata: Strata | None = None
) -> SpreadFigures:
    """Compare the standard deviations of pairs.

    scores_a, scores_b: (pair,), no NaN. cases: (pair,), case of each. The interval is a jackknife over cases of the
    logarithm of the ratio (Miller 1968), with Student's t of one less than the cases. In simulations of 8 to 200 cases,
    normal, skewed and of three levels, it covered 94 to 98%. strata: by which the standard deviations are weighted;
    there is then no interval.
    """
    of_a, of_b = (np.asarray(scores, dtype=np.float64) for scores in (scores_a, scores_b))
    if of_a.size < 2:
        return SpreadFigures(None, None, None, None, None)
    if strata is not None:
        sds = measure_strata(of_a, strata).sd, measure_strata(of_b, strata).sd
        return SpreadFigures(sds[0], sds[1], None, None, None)
    sd_a, sd_b = float(of_a.std(ddof=1)), float(of_b.std(ddof=1))
    _, codes, counts = np.unique(cases, return_inverse=True, return_counts=True)
    if counts.size < LEAST_CASES:
        return SpreadFigures(sd_a, sd_b, None, None, None)
    left_a, left_b = (_variances_without(scores, codes, counts) for scores in (of_a, of_b))
    if min(sd_a, sd_b, *left_a, *left_b) <= TIED:
        return SpreadFigures(sd_a, sd_b, None, None, None)
    from scipy.special import stdtrit

    ratios = np.log(left_b / left_a) / 2
    share = (counts.size - 1) / counts.size
    error = sqrt(share * float(np.square(ratios - ratios.mean()).sum()))
    centre, half = log(sd_b / sd_a), float(stdtrit(counts.size - 1, 0.975)) * error
    ratio, low, high = (float(np.exp(value)) for value in (centre, centre - half, centre + half))
    return SpreadFigures(sd_a, sd_b, ratio, low, high)


def _variances_without(scores: Floats, codes: NDArray[np.int64], counts: NDArray[np.int64]) -> Floats:
    """Variance of the scores without each case: (case,)."""
    centred = scores - scores.mean()
    sums, squares = np.bincount(codes, centred), np.bincount(codes, np.square(centred))
    left = scores.size - counts
    rest = squares.sum() - squares - np.square(sums.sum() - sums) / left
    return np.asarray(np.maximum(rest, 0.0) / (left - 1), dtype=np.float64)
