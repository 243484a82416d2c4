"""Two empirical distributions: their CDFs, and dominance of one over the other."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gradebook.rubrics.model.arrays import Floats

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
        place = int(np.argmax(ahead if is_b_more else -ahead))
        return Gap(float(self.scores[place]), float(self.share_a[place]), float(self.share_b[place]))


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
