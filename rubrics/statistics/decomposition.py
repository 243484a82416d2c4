"""What each criterion adds to a mean difference of overall scores: parts that add up to it.

An output's score is a sum of weight x score over a sum of weights, so a pair's difference is, where both outputs are
scored on the same criteria, the sum of weight x (score_b - score_a) / base: no model, no order, nothing left over.
What comes of gaps (a criterion that one side has and the other has not) is a part of its own, the remainder.
Where a rubric has a tree of categories and skips gaps, what a verdict counts hangs on what else of its group is scored.
"""

from collections.abc import Iterator, Sequence
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
class PairedVerdicts:
    """The weighted verdicts of one criterion, a row a pair.

    pairs: (row,), places in 0..pair_count-1, each at most once. weights: (row,), below 0 for a penalty. scores_a,
    scores_b: (row,), in 0..1, NaN where unscored. group: the place of its group, where there is a tree.
    """

    pairs: Places
    weights: Floats
    scores_a: Floats
    scores_b: Floats
    group: int = 0


@dataclass(frozen=True, slots=True)
class PairedScores:
    """What pairs of outputs score on each criterion. groups: a tree whose skipped gaps count within their group.

    Where there is one, the weights of verdicts are those within their group.
    """

    criteria: tuple[PairedVerdicts, ...]
    pair_count: int
    groups: Groups | None = None


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
        return Decomposition(np.nan, np.full(len(scores.criteria), np.nan), np.nan)
    difference = float(differences.mean())
    sums = [float(changes.sum()) for changes in weighted_changes(scores, is_skipped=is_skipped)]
    parts = np.array(sums, np.float64) / scores.pair_count
    remainder = difference - float(parts.sum())
    return Decomposition(difference, parts, 0.0 if abs(remainder) <= EXACT else remainder)


def weighted_changes(scores: PairedScores, *, is_skipped: bool = False) -> Iterator[Floats]:
    """By criterion what each verdict adds to its pair's difference, (row,); 0 where a side is unscored."""
    inverse = _inverse_bases(scores, is_skipped=is_skipped)
    for each in scores.criteria:
        shares = each.weights * inverse[each.pairs, each.group]
        changes = (each.scores_b - each.scores_a) * shares
        changes[np.isnan(changes)] = 0.0
        yield changes


def uniform(scores: PairedScores) -> PairedScores:
    """The same verdicts under weights of 1, of -1 for a penalty: what the overall scores are with nothing chosen."""
    alike = (replace(each, weights=np.sign(each.weights), group=0) for each in scores.criteria)
    return PairedScores(tuple(alike), scores.pair_count)


def _inverse_bases(scores: PairedScores, *, is_skipped: bool) -> Floats:
    """What a weight of 1 counts in each pair's overall scores, the mean of both sides: (pair, group); NaN for nothing.

    Without a tree all is in one group: 1 / the sum of the positive weights that the pair's output counts.
    """
    if scores.groups is None and not is_skipped:
        return _inverse(_bases(scores, [None] * len(scores.criteria)))
    of_a = _inverse(_bases(scores, [each.scores_a for each in scores.criteria]), scores.groups)
    of_b = _inverse(_bases(scores, [each.scores_b for each in scores.criteria]), scores.groups)
    of_a += of_b
    of_a /= 2.0
    return of_a


def _bases(scores: PairedScores, asked: Sequence[Floats | None]) -> Floats:
    """The positive weights of each pair by group, (pair, group). asked: by criterion the scores that must be there."""
    sums = np.zeros((scores.pair_count, 1 if scores.groups is None else scores.groups.parents.size))
    for each, side in zip(scores.criteria, asked, strict=True):
        counted = np.maximum(each.weights, 0.0)
        sums[each.pairs, each.group] += counted if side is None else np.where(np.isnan(side), 0.0, counted)
    return sums


def _inverse(sums: Floats, groups: Groups | None = None) -> Floats:
    """Over what is counted alone: a group without a criterion of positive weight is absent from its parent."""
    inner = range(1, sums.shape[1])
    if groups is not None:
        for group in reversed(inner):  # what is within a group is behind it, so its sum is whole by now
            sums[:, groups.parents[group]] += np.where(sums[:, group] > 0, groups.weights[group], 0.0)
    inverse: Floats = np.divide(1.0, sums, out=np.full(sums.shape, np.nan), where=sums > 0)
    if groups is not None:
        for group in inner:
            inverse[:, group] *= groups.weights[group] * inverse[:, groups.parents[group]]
    return inverse
