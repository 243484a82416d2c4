"""Decompositions: of a mean difference by criteria, and of variance by facets.

`decompose` gives contributions of the criteria to a mean difference of overall scores, which add up to it.
An output's score is a sum of weight x score over a sum of weights. If both outputs of a pair are scored on the same
criteria, their difference is the sum of weight x (score_b - score_a) / base: no model, no order, no residual. The
effect of missing scores (a criterion that only one side has) is a separate part, the remainder. If a rubric has a tree
of categories and skips missing scores, the weight of a verdict depends on the other scores of its group.

`variance_components` and `Design` show what a larger design would gain (generalisability theory).
The components are those of Henderson's method I (1953; Searle, Casella and McCulloch 1992, section 5.3): the sums of
squares over the levels of each facet are set equal to their expectations. So the design may be unbalanced; in a
balanced one they are the expected mean squares of the analysis of variance, as in Brennan (2001).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats

EXACT = 1e-12  # scores are rounded to 12 digits, the maximum error of parts without missing scores

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Groups:
    """Tree of groups, the root first; each group comes after its parent.

    parents: (group,), index of each group's parent, 0 for the root. weights: (group,), within the parent.
    """

    parents: Indices
    weights: Floats


@dataclass(frozen=True, slots=True)
class PairedVerdicts:
    """Weighted verdicts of one criterion, one row per pair.

    pairs: (row,), indices in 0..pair_count-1, each at most once. weights: (row,), negative for a penalty. scores_a,
    scores_b: (row,), in 0..1, NaN if unscored. group: index of its group, if there is a tree. is_required: whether a
    verdict counts in an output's base without a score too.
    """

    pairs: Indices
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
        sums = [float(change.sum()) for change in changes]
    else:
        total = float(weights.sum())
        difference = float(differences @ weights) / total
        sums = [
            float(change @ weights[criterion.pairs]) for change, criterion in zip(changes, scores.criteria, strict=True)
        ]
    parts = np.array(sums, np.float64) / total
    remainder = difference - float(parts.sum())
    return Decomposition(difference, parts, 0.0 if abs(remainder) <= EXACT else remainder)


def weighted_changes(scores: PairedScores, *, is_skipped: bool = False) -> Iterator[Floats]:
    """Contribution of each verdict to its pair's difference, by criterion: (row,); 0 if a side is unscored."""
    inverse = _inverse_bases(scores, is_skipped=is_skipped)
    for criterion in scores.criteria:
        shares = criterion.weights * inverse[criterion.pairs, criterion.group]
        changes = (criterion.scores_b - criterion.scores_a) * shares
        changes[np.isnan(changes)] = 0.0
        yield changes


def uniform(scores: PairedScores) -> PairedScores:
    """Same verdicts with weights of 1, or -1 for a penalty: overall scores without chosen weights."""
    alike = (replace(criterion, weights=np.sign(criterion.weights), group=0) for criterion in scores.criteria)
    return PairedScores(tuple(alike), scores.pair_count)


def _inverse_bases(scores: PairedScores, *, is_skipped: bool) -> Floats:
    """Value of a weight of 1 in each pair's overall scores, the mean of both sides: (pair, group); NaN without a base.

    Without a tree there is one group: 1 / the sum of the positive weights that count for the pair's output.
    """
    is_counted = [scores.groups is None and not is_skipped and criterion.is_required for criterion in scores.criteria]
    if all(is_counted):
        return _inverse(_bases(scores, [None] * len(scores.criteria)))
    pairs = list(zip(scores.criteria, is_counted, strict=True))
    of_a = _inverse(
        _bases(scores, [None if counted else criterion.scores_a for criterion, counted in pairs]), scores.groups
    )
    of_b = _inverse(
        _bases(scores, [None if counted else criterion.scores_b for criterion, counted in pairs]), scores.groups
    )
    of_a += of_b
    of_a /= 2.0
    return of_a


def _bases(scores: PairedScores, required: Sequence[Floats | None]) -> Floats:
    """Positive weights of each pair by group: (pair, group). required: by criterion, scores that must exist."""
    sums = np.zeros((scores.pair_count, 1 if scores.groups is None else scores.groups.parents.size))
    for criterion, side in zip(scores.criteria, required, strict=True):
        counted = np.maximum(criterion.weights, 0.0)
        sums[criterion.pairs, criterion.group] += counted if side is None else np.where(np.isnan(side), 0.0, counted)
    return sums


def _inverse(sums: Floats, groups: Groups | None = None) -> Floats:
    """Value of a weight of 1 in the overall score, by pair and group; NaN where there is none.

    A group without positive weights adds nothing to its parent. sums: positive weights, (pair, group); those of parents
    are completed in place.
    """
    inner = range(1, sums.shape[1])
    if groups is not None:
        for group in reversed(inner):  # children come after their group, so its sum is complete here
            sums[:, groups.parents[group]] += np.where(sums[:, group] > 0, groups.weights[group], 0.0)
    inverse: Floats = np.divide(1.0, sums, out=np.full(sums.shape, np.nan), where=sums > 0)
    if groups is not None:
        for group in inner:
            inverse[:, group] *= groups.weights[group] * inverse[:, groups.parents[group]]
    return inverse


CASE, SAMPLE, JUDGE, OUTPUT_JUDGE, RATER, REST = "case", "sample", "judge", "output_judge", "rater", "replicate"
Codes = NDArray[np.int64]


def variance_components(scores: Floats, facets: Mapping[str, Codes]) -> dict[str, float]:
    """Variance of each facet, in order, and of the rest as `REST`; a negative estimate is 0.

    scores: (n,), no NaN. facets: level of each score, (n,), by the facet's name; a nested facet has levels of its own
    in each level of the other. A facet with a single level, with the levels of an earlier one, or with a level for each
    score is not apart from others and is left out. Empty if nothing is left to tell apart from the rest.
    """
    apart = _apart(scores.size, facets)
    if not apart:
        return {}
    levels = [np.zeros(scores.size, dtype=np.int64), *apart.values(), np.arange(scores.size)]
    centred = scores - scores.mean()  # the mean's own term takes up the shift
    sums = [float((np.bincount(level, weights=centred) ** 2 / np.bincount(level)).sum()) for level in levels]
    expected = np.array([[scores.size, *(_shared(level, facet) for facet in levels[1:])] for level in levels])
    components = np.linalg.solve(expected, np.array(sums))[1:]
    return {name: max(0.0, float(value)) for name, value in zip([*apart, REST], components, strict=True)}


def _apart(n: int, facets: Mapping[str, Codes]) -> dict[str, Codes]:
    """Facets with levels of their own, as codes from 0."""
    distinct: dict[str, Codes] = {}
    for name, levels in facets.items():
        codes = np.unique(levels, return_inverse=True)[1].ravel()
        count = int(codes.max(initial=-1)) + 1
        is_new = all(
            _joint(codes, other)[0].size > max(count, int(other.max()) + 1) or count != int(other.max()) + 1
            for other in distinct.values()
        )
        if 1 < count < n and is_new:
            distinct[name] = codes
    return distinct


def _shared(levels: Codes, facet: Codes) -> float:
    """Coefficient of a facet's variance in the sum of squares over levels: sum of n_ab^2 / n_a."""
    pairs, counts = _joint(levels, facet)
    return float((counts**2 / np.bincount(levels)[pairs // (int(facet.max()) + 1)]).sum())


def _joint(one: Codes, other: Codes) -> tuple[Codes, Floats]:
    """Pairs of levels that occur together, as one x (levels of other) + other, and their numbers."""
    pairs, counts = np.unique(one * (int(other.max()) + 1) + other, return_counts=True)
    return pairs, counts.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Design:
    """Numbers of an evaluation: cases, samples of each case, and replies to each output."""

    case_count: float
    sample_count: float
    replicate_count: float

    def standard_error(self, components: Mapping[str, float]) -> float:
        """Standard error of the mean score, if cases, samples and replies were drawn anew.

        components: of `variance_components`. Without a component of its own, samples count as part of the case.
        """
        of_case = components.get(CASE, 0.0) + components.get(SAMPLE, 0.0) / self.sample_count
        replies = components[REST] / (self.sample_count * self.replicate_count)
        return sqrt((of_case + replies) / self.case_count)

    @property
    def reply_count(self) -> float:
        """Number of replies, which is what costs."""
        return self.case_count * self.sample_count * self.replicate_count
