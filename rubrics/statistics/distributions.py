"""Two empirical distributions: their CDFs, dominance of one over the other, and which is steadier.

The steadier side has the smaller standard deviation: `measure_spread` gives the ratio with its interval.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.means import TIED
from gradebook.rubrics.statistics.significance import Chance, chance_of_interval
from gradebook.rubrics.statistics.strata import Strata

SCORE_DIGITS = 9  # scores that differ by less are equal: the rounding error of a float sum
MOST_SCORES = 1_000  # a CDF with more distinct scores than this is shown at 3 digits
SHOWN_DIGITS = 3
SHARE_TOLERANCE = 1e-12


class Dominance(StrEnum):
    """First-order dominance: the sample that has, at every score, no larger share at or below it."""

    a = "a"
    b = "b"
    equal = "equal"
    neither = "neither"
    unknown = "unknown"  # a side has no score


class Gap(NamedTuple):
    """Distance between two curves at a score, as the share (0..1) of each side at or below it."""

    score: float
    share_a: float
    share_b: float


@dataclass(frozen=True, slots=True)
class DistributionPair:
    """Two empirical CDFs over the scores that occur in either.

    scores: (score,), ascending. share_a, share_b: (score,), P(score <= t) in 0..1; empty if a side has none.
    """

    scores: Floats
    share_a: Floats
    share_b: Floats

    @property
    def dominance(self) -> Dominance:
        """Dominant side: the one whose CDF is nowhere above the other's, and somewhere below."""
        if not self.scores.size:
            return Dominance.unknown
        gaps = self.share_b - self.share_a
        is_ahead, is_behind = bool((gaps < -SHARE_TOLERANCE).any()), bool((gaps > SHARE_TOLERANCE).any())
        if is_ahead and is_behind:
            return Dominance.neither
        if is_ahead:
            return Dominance.b
        return Dominance.a if is_behind else Dominance.equal

    def widest_gap(self, *, is_b_more: bool) -> Gap:
        """Score at or below which B (or A) has the most outputs more than the other side; needs scores."""
        ahead = self.share_b - self.share_a
        index = int(np.argmax(ahead if is_b_more else -ahead))
        return Gap(float(self.scores[index]), float(self.share_a[index]), float(self.share_b[index]))


def pair_distributions(scores_a: ArrayLike, scores_b: ArrayLike, weights: Floats | None = None) -> DistributionPair:
    """Exact CDFs of two samples; scores (n_a,) and (n_b,), no NaN. weights: (n,), of the pairs of two equal n."""
    samples = [_rounded(scores) for scores in (scores_a, scores_b)]
    if not all(sample.size for sample in samples):
        return DistributionPair(*(np.empty(0) for _ in range(3)))
    scores: Floats = np.asarray(np.unique(np.concatenate(samples)), dtype=np.float64)
    return DistributionPair(scores, *(_shares_at(sample, scores, weights) for sample in samples))


def thin_distributions(pair: DistributionPair) -> DistributionPair:
    """CDFs for display: rounded to 3 digits if more than `MOST_SCORES` scores occur, which may blur dominance."""
    if pair.scores.size <= MOST_SCORES:
        return pair
    rounded: Floats = np.asarray(np.round(pair.scores, SHOWN_DIGITS), dtype=np.float64)
    last = np.append(rounded[1:] != rounded[:-1], True)
    return DistributionPair(rounded[last], pair.share_a[last], pair.share_b[last])


def share_at_or_below(scores: ArrayLike, thresholds: ArrayLike, weights: Floats | None = None) -> Floats:
    """P(score <= t) of a sample at any thresholds: (threshold,), NaN without scores. weights: (n,), of the scores."""
    sample, wanted = _rounded(scores), _rounded(thresholds)
    if not sample.size:
        return np.full(wanted.size, np.nan)
    return _shares_at(sample, wanted, weights)


def _rounded(scores: ArrayLike) -> Floats:
    return np.asarray(np.round(np.atleast_1d(np.asarray(scores, np.float64)), SCORE_DIGITS), np.float64)


def _shares_at(sample: Floats, wanted: Floats, weights: Floats | None) -> Floats:
    """Share of the sample, or of its weight, at or below each wanted score."""
    if weights is None:
        return np.asarray(np.searchsorted(np.sort(sample), wanted, side="right") / sample.size, dtype=np.float64)
    order = np.argsort(sample, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    return np.asarray(sums[np.searchsorted(sample[order], wanted, side="right")] / sums[-1], dtype=np.float64)


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
    there is no interval of cases that were drawn by stratum.
    """
    of_a, of_b = (np.asarray(scores, dtype=np.float64) for scores in (scores_a, scores_b))
    if of_a.size < 2:
        return SpreadFigures(None, None, None, None, None)
    weights = np.ones(of_a.size) if strata is None else strata.weights
    n = of_a.size
    sd_a, sd_b = (sqrt(_variance(scores, weights) * n / (n - 1)) for scores in (of_a, of_b))
    _, codes = np.unique(cases, return_inverse=True)
    case_count = int(codes.max()) + 1
    if case_count < LEAST_CASES or (strata is not None and strata.is_drawn):
        return SpreadFigures(sd_a, sd_b, None, None, None)
    without_a, without_b = (_variances_without(scores, weights, codes) for scores in (of_a, of_b))
    if min(sd_a, sd_b, *without_a, *without_b) <= TIED:
        return SpreadFigures(sd_a, sd_b, None, None, None)
    from scipy.special import stdtrit

    ratios = np.log(without_b / without_a) / 2
    share = (case_count - 1) / case_count
    error = sqrt(share * float(np.square(ratios - ratios.mean()).sum()))
    centre, half = log(sd_b / sd_a), float(stdtrit(case_count - 1, 0.975)) * error
    ratio, low, high = (float(np.exp(value)) for value in (centre, centre - half, centre + half))
    return SpreadFigures(sd_a, sd_b, ratio, low, high)


def _variance(scores: Floats, weights: Floats) -> float:
    mean = float(scores @ weights / weights.sum())
    return float(np.square(scores - mean) @ weights / weights.sum())


def _variances_without(scores: Floats, weights: Floats, codes: NDArray[np.int64]) -> Floats:
    """Weighted variance of the scores without each case: (case,)."""
    centred = scores - scores.mean()
    sums, squares = np.bincount(codes, weights * centred), np.bincount(codes, weights * np.square(centred))
    left = weights.sum() - np.bincount(codes, weights)
    means = (sums.sum() - sums) / left
    return np.asarray(np.maximum((squares.sum() - squares) / left - np.square(means), 0.0), dtype=np.float64)
