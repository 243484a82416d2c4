"""What each criterion adds to a mean difference of overall scores: parts that add up to it.

An output's score is a sum of weight x score over a sum of weights, so a pair's difference is, where both outputs are
scored on the same criteria, the sum of weight x (score_b - score_a) / base: no model, no order, nothing left over.
What comes of gaps (a criterion that one side has and the other has not) is a part of its own, the remainder.
Where a rubric has a tree of categories and skips gaps, what a verdict counts hangs on what else of its group is scored.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

EXACT = 1e-12  # scores are rounded to 12 digits, so parts of pairs without gaps can be off by that

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Groups:
    """A tree of groups, the first of them the whole; each stands behind its parent.

    parents: (group,), the place of the group around each, 0 for the whole. weights: (group,), within the parent.
    """

    parents: Places
    weights: Floats


@dataclass(frozen=True, slots=True)
class PairedScores:
    """The weighted verdicts of pairs, a row a pair and criterion, in long form.

    pairs, criteria: (row,), places in 0..pair_count-1 and 0..criterion_count-1, each couple once. weights: (row,),
    below 0 for a penalty. scores_a, scores_b: (row,), in 0..1, NaN where unscored. groups: a tree whose skipped gaps
    count within their group; weights are then within it, and places, (row,), says which it is.
    """

    pairs: Places
    criteria: Places
    weights: Floats
    scores_a: Floats
    scores_b: Floats
    pair_count: int
    criterion_count: int
    groups: Groups | None = None
    places: Places | None = None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A mean difference in parts. parts: (criterion,); their sum and the remainder is the difference, to 1e-12.

    remainder: what comes of verdicts that one side lacks; 0 where there are none.
    """

    difference: float
    parts: Floats
    remainder: float


def decompose(scores: PairedScores, differences: Floats, *, is_skipped: bool = False) -> Decomposition:
    """Split the mean difference of pairs into a part for each criterion.

    differences: (pair,), score_b - score_a of the overall scores, no NaN. is_skipped: a gap is left out of an output's
    base (`missing: skip`), else it stays in. A criterion's part counts only pairs that both sides have scored on it,
    over the mean of both sides' 1 / base, so that swapping the sides flips every part's sign.
    NaN all over where there is no pair.
    """
    if not scores.pair_count:
        return Decomposition(np.nan, np.full(scores.criterion_count, np.nan), np.nan)
    difference = float(differences.mean())
    changes = weighted_changes(scores, is_skipped=is_skipped)
    parts = np.bincount(scores.criteria, weights=changes, minlength=scores.criterion_count) / scores.pair_count
    remainder = difference - float(parts.sum())
    return Decomposition(difference, parts, 0.0 if abs(remainder) <= EXACT else remainder)


def weighted_changes(scores: PairedScores, *, is_skipped: bool = False) -> Floats:
    """What each row adds to its pair's difference, (row,); 0 where a side is unscored."""
    of_a, of_b = (_shares(scores, side, is_skipped=is_skipped) for side in (scores.scores_a, scores.scores_b))
    changes = (scores.scores_b - scores.scores_a) * (of_a + of_b) / 2.0
    known: Floats = np.where(np.isnan(changes), 0.0, changes)
    return known


def uniform(scores: PairedScores) -> PairedScores:
    """The same verdicts under weights of 1, of -1 for a penalty: what the overall scores are with nothing chosen."""
    return replace(scores, weights=np.sign(scores.weights), groups=None, places=None)


def _shares(scores: PairedScores, side: Floats, *, is_skipped: bool) -> Floats:
    """What each verdict counts in the score of its output on one side, (row,)."""
    if scores.groups is None or scores.places is None:
        return scores.weights * _inverse_bases(scores, side, is_skipped=is_skipped)[scores.pairs]
    return _grouped_shares(scores, side, scores.groups, scores.places)


def _grouped_shares(scores: PairedScores, side: Floats, groups: Groups, places: Places) -> Floats:
    """Over what is scored alone: a group without a scored criterion of positive weight is absent from its parent."""
    group_count = groups.parents.size
    counted = np.where(np.isnan(side), 0.0, np.maximum(scores.weights, 0.0))
    cells = scores.pairs * group_count + places
    sums = np.bincount(cells, weights=counted, minlength=scores.pair_count * group_count)
    sums = sums.reshape(scores.pair_count, group_count).astype(np.float64)  # of no pair they are integers
    inner = range(1, group_count)
    for group in reversed(inner):  # what is within a group is behind it, so its sum is whole by now
        sums[:, groups.parents[group]] += np.where(sums[:, group] > 0, groups.weights[group], 0.0)
    inverse = np.divide(1.0, sums, out=np.full(sums.shape, np.nan), where=sums > 0)
    for group in inner:
        inverse[:, group] *= groups.weights[group] * inverse[:, groups.parents[group]]
    shares: Floats = scores.weights * inverse.ravel()[cells]
    return shares


def _inverse_bases(scores: PairedScores, side: Floats, *, is_skipped: bool) -> Floats:
    """1 / the sum of positive weights that each pair's output counts, (pair,); NaN where that is 0."""
    counted = np.maximum(scores.weights, 0.0)
    if is_skipped:
        counted = np.where(np.isnan(side), 0.0, counted)
    bases = np.bincount(scores.pairs, weights=counted, minlength=scores.pair_count)
    inverse: Floats = np.divide(1.0, bases, out=np.full(scores.pair_count, np.nan), where=bases > 0)
    return inverse
