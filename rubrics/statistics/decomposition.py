"""Contributions of the criteria to a mean difference of overall scores, which add up to it.

An output's score is a sum of weight x score over a sum of weights. If both outputs of a pair are scored on the same
criteria, their difference is the sum of weight x (score_b - score_a) / base: no model, no order, no residual. The
effect of missing scores (a criterion that only one side has) is a separate part, the remainder. If a rubric has a tree
of categories and skips missing scores, the weight of a verdict depends on the other scores of its group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats

EXACT = 1e-12  # scores are rounded to 12 digits, the maximum error of parts without missing scores

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Groups:
    """Tree of groups, the root first; each group comes after its parent.

    parents: (group,), index of each group's parent, 0 for the root. weights: (group,), within the parent.
    """

    parents: Places
    weights: Floats


@dataclass(frozen=True, slots=True)
class PairedVerdicts:
    """Weighted verdicts of one criterion, one row per pair.

    pairs: (row,), indices in 0..pair_count-1, each at most once. weights: (row,), negative for a penalty. scores_a,
    scores_b: (row,), in 0..1, NaN if unscored. group: index of its group, if there is a tree. is_required: whether a
    verdict counts in an output's base without a score too.
    """

    pairs: Places
    weights: Floats
    scores_a: Floats
    scores_b: Floats
    group: int = 0
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Scores of pairs of outputs on each criterion.

    groups: tree for rubrics that skip missing scores within groups; the weights of verdicts are then those within their
    group.
    """

    criteria: tuple[PairedVerdicts, ...]
    pair_count: int
    groups: Groups | None = None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Decomposed mean difference.

    parts: (criterion,); their sum plus the remainder is the difference, to 1e-12. remainder: effect of verdicts that
    one side lacks; 0 if there are none.
    """

    difference: float
    parts: Floats
    remainder: float


def decompose(
    scores: PairedScores, differences: Floats, *, is_skipped: bool = False, weights: Floats | None = None
) -> Decomposition:
    """Split the mean difference of pairs into a part for each criterion.

    differences: (pair,), score_b - score_a of the overall scores, no NaN. is_skipped: whether a missing score is
    excluded from an output's base (`missing: skip`). A criterion's part includes only pairs scored on both sides, over
    the mean of both sides' 1 / base, so that swapping the sides flips every sign. weights: (pair,), of the pairs in the
    mean; None: they are equal. All NaN without pairs.
    """
    if not scores.pair_count:
        return Decomposition(np.nan, np.full(len(scores.criteria), np.nan), np.nan)
    changes = weighted_changes(scores, is_skipped=is_skipped)
    if weights is None:
        difference, total = float(differences.mean()), float(scores.pair_count)
        sums = [float(each.sum()) for each in changes]
    else:
        total = float(weights.sum())
        difference = float(differences @ weights) / total
        sums = [float(each @ weights[of.pairs]) for each, of in zip(changes, scores.criteria, strict=True)]
    parts = np.array(sums, np.float64) / total
    remainder = difference - float(parts.sum())
    return Decomposition(difference, parts, 0.0 if abs(remainder) <= EXACT else remainder)


def weighted_changes(scores: PairedScores, *, is_skipped: bool = False) -> Iterator[Floats]:
    """Contribution of each verdict to its pair's difference, by criterion: (row,); 0 if a side is unscored."""
    inverse = _inverse_bases(scores, is_skipped=is_skipped)
    for each in scores.criteria:
        shares = each.weights * inverse[each.pairs, each.group]
        changes = (each.scores_b - each.scores_a) * shares
        changes[np.isnan(changes)] = 0.0
        yield changes


def uniform(scores: PairedScores) -> PairedScores:
    """Same verdicts with weights of 1, or -1 for a penalty: overall scores without chosen weights."""
    alike = (replace(each, weights=np.sign(each.weights), group=0) for each in scores.criteria)
    return PairedScores(tuple(alike), scores.pair_count)


def _inverse_bases(scores: PairedScores, *, is_skipped: bool) -> Floats:
    """Value of a weight of 1 in each pair's overall scores, the mean of both sides: (pair, group); NaN without a base.

    Without a tree there is one group: 1 / the sum of the positive weights that count for the pair's output.
    """
    is_counted = [scores.groups is None and not is_skipped and each.is_required for each in scores.criteria]
    if all(is_counted):
        return _inverse(_bases(scores, [None] * len(scores.criteria)))
    pairs = list(zip(scores.criteria, is_counted, strict=True))
    of_a = _inverse(_bases(scores, [None if counted else each.scores_a for each, counted in pairs]), scores.groups)
    of_b = _inverse(_bases(scores, [None if counted else each.scores_b for each, counted in pairs]), scores.groups)
    of_a += of_b
    of_a /= 2.0
    return of_a


def _bases(scores: PairedScores, required: Sequence[Floats | None]) -> Floats:
    """Positive weights of each pair by group: (pair, group). required: by criterion, scores that must exist."""
    sums = np.zeros((scores.pair_count, 1 if scores.groups is None else scores.groups.parents.size))
    for each, side in zip(scores.criteria, required, strict=True):
        counted = np.maximum(each.weights, 0.0)
        sums[each.pairs, each.group] += counted if side is None else np.where(np.isnan(side), 0.0, counted)
    return sums


def _inverse(sums: Floats, groups: Groups | None = None) -> Floats:
    """Inverse of each base. A group without a criterion of positive weight is absent from its parent."""
    inner = range(1, sums.shape[1])
    if groups is not None:
        for group in reversed(inner):  # children come after their group, so its sum is complete here
            sums[:, groups.parents[group]] += np.where(sums[:, group] > 0, groups.weights[group], 0.0)
    inverse: Floats = np.divide(1.0, sums, out=np.full(sums.shape, np.nan), where=sums > 0)
    if groups is not None:
        for group in inner:
            inverse[:, group] *= groups.weights[group] * inverse[:, groups.parents[group]]
    return inverse
