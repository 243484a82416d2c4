"""Attribution of a difference to criteria and score ranges, and the cases that lost and gained most."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.rubric import TOP, Rubric, WeightTree, effective_weights
from gradebook.rubrics.statistics.decomposition import (
    Decomposition,
    Groups,
    PairedScores,
    PairedVerdicts,
    decompose,
    uniform,
    weighted_changes,
)
from gradebook.rubrics.statistics.distributions import (
    DistributionPair,
    pair_distributions,
    share_at_or_below,
    thin_distributions,
)
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval
from gradebook.rubrics.statistics.means import TIED
from gradebook.rubrics.statistics.strata import Strata
from gradebook.rubrics.text.remarks import dominance_sentence
from gradebook.tasks.comparing.case_pairs import PairedSides, name_places

MOST_CASES = 10
UNSCORED = "(unscored)"  # part due to verdicts missing on one side

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """Contribution of one criterion to the mean difference, with the rubric's weights and with uniform ones.

    criterion_id: `(unscored)` for the contribution of verdicts that one side lacks. uniform_part: None if the uniform
    scores of a pair are unknown.
    """

    criterion_id: str
    category: str | None
    part: float
    uniform_part: float | None


@dataclass(frozen=True, slots=True)
class ChangedCase:
    """Case whose overall score fell or rose. Scores are means over its pair_count pairs.

    outputs: of the pair that changed most. criteria: change by criterion, largest first, without criteria that changed
    in the other direction.
    """

    case_id: str
    pair_count: int
    score_a: float
    score_b: float
    difference: float
    output_a: str
    output_b: str
    criteria: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Attribution of the overall difference of two models; parts add up to it.

    shares_at: rows of threshold, share_a, share_b; empty if no pair is scored. lost_most, gained_most: cases, those
    that changed most first.
    """

    parts: tuple[Part, ...]
    distributions: DistributionPair
    sentence: str
    shares_at: tuple[tuple[float, float, float], ...]
    lost_most: tuple[ChangedCase, ...]
    gained_most: tuple[ChangedCase, ...]

    def parts_as_json(self) -> list[dict[str, Any]]:
        return [asdict(part) for part in self.parts]

    def distribution_as_json(self) -> dict[str, Any]:
        """Both CDFs with their summary."""
        return {
            "scores": self.distributions.scores.tolist(),
            "share_a": self.distributions.share_a.tolist(),
            "share_b": self.distributions.share_b.tolist(),
            "sentence": self.sentence,
            "shares_at": [dict(zip(("score", "share_a", "share_b"), row, strict=True)) for row in self.shares_at],
        }

    def lost_as_json(self) -> list[dict[str, Any]]:
        return [
            asdict(case) | {"criteria": [{"criterion_id": name, "part": part} for name, part in case.criteria]}
            for case in self.lost_most
        ]


@dataclass(frozen=True, slots=True)
class WeightedPairs:
    """Pairs with overall scores on both sides, with their weighted verdicts.

    criterion_ids: (criterion,) of the scores. places, cases: (pair,). scores_a, scores_b: (pair,), overall.
    bounds: range of possible differences of two overall scores.
    """

    scores: PairedScores
    criterion_ids: tuple[str, ...]
    places: NDArray[np.int64]
    cases: NDArray[np.int64]
    scores_a: Floats
    scores_b: Floats
    is_skipped: bool
    bounds: Interval
    strata: Strata | None = None

    @property
    def pair_weights(self) -> Floats | None:
        """Weights of the pairs; None if they are equal."""
        return None if self.strata is None else self.strata.weights


def weigh_pairs(sides: PairedSides, rubric: Rubric) -> WeightedPairs:
    """Verdicts behind the overall scores of the pairs, with their weights."""
    is_scored = sides.overall.is_scored
    places = sides.overall.places[is_scored]
    by_criterion = dict(_weighted_verdicts(sides, scaled_weights(rubric), places))
    optional = {criterion.id for criterion in rubric.criteria if not criterion.required or criterion.applies}
    weighed = tuple(replace(verdicts, is_required=name not in optional) for name, verdicts in by_criterion.items())
    scores = PairedScores(weighed, places.size)
    is_skipped = rubric.missing == "skip"
    return WeightedPairs(
        _put_in_groups(scores, tuple(by_criterion), rubric) if is_skipped and rubric.categories else scores,
        tuple(by_criterion),
        places,
        sides.overall.cases[is_scored],
        sides.overall.scores_a[is_scored],
        sides.overall.scores_b[is_scored],
        is_skipped,
        _bounds(scores),
        sides.strata_at(places),
    )


def scaled_weights(rubric: Rubric) -> dict[str, float]:
    """Weights of a rubric's criteria on the scale of per-case criteria."""
    scale = WeightTree.of(rubric).positive_sums[TOP] if rubric.categories else 1.0
    return {name: scale * weight for name, weight in effective_weights(rubric).items()}


def explain(
    connection: duckdb.DuckDBPyConnection,
    sides: PairedSides,
    weighted: WeightedPairs,
    rubric: Rubric,
    shares_at: tuple[float, ...] = (),
) -> Explanation:
    """Attribute the overall difference of two models; needs the tables of `pair_sides`."""
    scores, pair_weights = (weighted.scores_a, weighted.scores_b), weighted.pair_weights
    pair = pair_distributions(*scores, pair_weights)
    shares = [share_at_or_below(score, shares_at, pair_weights) for score in scores]
    threshold_rows = zip(shares_at, *(share.tolist() for share in shares), strict=True) if weighted.places.size else ()
    return Explanation(
        tuple(_parts(sides, weighted, rubric)),
        thin_distributions(pair),
        dominance_sentence(pair),
        tuple(threshold_rows),
        tuple(_changed_cases(connection, weighted, is_lost=True)),
        tuple(_changed_cases(connection, weighted, is_lost=False)),
    )


def _weighted_verdicts(
    sides: PairedSides, weights: dict[str, float], places: NDArray[np.int64]
) -> Iterator[tuple[str, PairedVerdicts]]:
    """Verdicts that count in an overall score of a pair, by criterion."""
    if not places.size:
        return
    of_overall = _indexes_of_places(places, sides.overall.places)
    for criterion_id, pairs in sides.by_criterion.items():
        applied_weights = np.where(np.isnan(pairs.own_weights), weights.get(criterion_id, 0.0), pairs.own_weights)
        is_overall = pairs.places is sides.overall.places
        indexes = of_overall if is_overall else _indexes_of_places(places, pairs.places)
        counted = (places[indexes] == pairs.places) & (applied_weights != 0)
        if counted.all():  # the usual case: shares the arrays of millions of verdicts instead of copying them
            yield criterion_id, PairedVerdicts(indexes, applied_weights, pairs.scores_a, pairs.scores_b)
        elif counted.any():
            scores = pairs.scores_a[counted], pairs.scores_b[counted]
            yield criterion_id, PairedVerdicts(indexes[counted], applied_weights[counted], *scores)


def _indexes_of_places(places: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.intp]:
    """Index of each wanted place among the ascending places; arbitrary if it is missing."""
    indexes: NDArray[np.intp] = np.minimum(np.searchsorted(places, wanted), places.size - 1)
    return indexes


def _bounds(scores: PairedScores) -> Interval:
    """Range of possible differences of two overall scores: wider than -1..1 with penalties."""
    if not any((criterion.weights < 0).any() for criterion in scores.criteria):
        return DIFFERENCES
    gains, losses = np.zeros(scores.pair_count), np.zeros(scores.pair_count)
    for criterion in scores.criteria:
        is_in_both = criterion.is_required | ~np.isnan(criterion.scores_a + criterion.scores_b)
        gains[criterion.pairs] += np.where(is_in_both, np.maximum(criterion.weights, 0.0), 0.0)
        losses[criterion.pairs] += np.maximum(-criterion.weights, 0.0)
    widest = 1.0 + float((losses[gains > 0] / gains[gains > 0]).max(initial=0.0))
    return Interval(-widest, widest)


def _put_in_groups(scores: PairedScores, criterion_ids: Sequence[str], rubric: Rubric) -> PairedScores:
    """Verdicts with weights relative to their category; per-case criteria are at the top level."""
    tree = WeightTree.of(rubric)
    outer_first = sorted(tree.parents, key=lambda category: len(tree.groups_above(category)))
    group_indexes = {group: index for index, group in enumerate([TOP, *outer_first])}
    groups = Groups(
        np.array([0, *(group_indexes[tree.parents[category] or TOP] for category in outer_first)], dtype=np.intp),
        np.array([0.0, *(tree.weights[category] for category in outer_first)]),
    )
    criteria = {criterion.id: criterion for criterion in rubric.criteria}
    placed = []
    for criterion_id, verdicts in zip(criterion_ids, scores.criteria, strict=True):
        if (criterion := criteria.get(criterion_id)) is None:
            placed.append(verdicts)
        else:
            weights = np.full(verdicts.weights.shape, criterion.own_weight)
            placed.append(replace(verdicts, weights=weights, group=group_indexes[criterion.category or TOP]))
    return replace(scores, criteria=tuple(placed), groups=groups)


def _parts(sides: PairedSides, weighted: WeightedPairs, rubric: Rubric) -> Iterator[Part]:
    """Parts in the rubric's order, then of per-case criteria, then the remainder."""
    if not weighted.places.size:
        return
    differences, pair_weights = weighted.scores_b - weighted.scores_a, weighted.pair_weights
    chosen = decompose(weighted.scores, differences, is_skipped=weighted.is_skipped, weights=pair_weights)
    plain = _uniform_parts(sides, weighted)
    categories = {criterion.id: criterion.category for criterion in rubric.criteria}
    order = {criterion_id: index for index, criterion_id in enumerate(categories)}
    by_position = sorted(
        enumerate(weighted.criterion_ids), key=lambda entry: (order.get(entry[1], len(order)), entry[1])
    )
    for index, criterion_id in by_position:
        part = None if plain is None else float(plain.parts[index])
        yield Part(criterion_id, categories.get(criterion_id), float(chosen.parts[index]), part)
    if chosen.remainder or (plain is not None and plain.remainder):
        yield Part(UNSCORED, None, chosen.remainder, None if plain is None else plain.remainder)


def _uniform_parts(sides: PairedSides, weighted: WeightedPairs) -> Decomposition | None:
    """Decomposition with uniform weights; None if a pair lacks its uniform score."""
    positions = np.searchsorted(sides.outputs.places, weighted.places)
    differences = sides.outputs.uniform_b[positions] - sides.outputs.uniform_a[positions]
    if np.isnan(differences).any():
        return None
    scores = uniform(weighted.scores)
    return decompose(scores, differences, is_skipped=weighted.is_skipped, weights=weighted.pair_weights)


def _changed_cases(
    connection: duckdb.DuckDBPyConnection, weighted: WeightedPairs, *, is_lost: bool
) -> Iterator[ChangedCase]:
    """Cases with the most negative mean difference, worst first, or those with the most positive one."""
    sign = 1.0 if is_lost else -1.0
    cases, codes, counts = np.unique(weighted.cases, return_inverse=True, return_counts=True)
    differences = sign * (weighted.scores_b - weighted.scores_a)
    means = [np.bincount(codes, scores, cases.size) / counts for scores in (weighted.scores_a, weighted.scores_b)]
    change = means[1] - means[0]
    first = np.argsort(sign * change, kind="stable")[:MOST_CASES]
    most = [code for code in first.tolist() if sign * change[code] < -TIED]
    members = [np.flatnonzero(codes == code) for code in most]
    extremes = [int(pairs[np.argmin(differences[pairs])]) for pairs in members]
    names = name_places(connection, [int(weighted.places[pair]) for pair in extremes])
    by_criterion = sign * _changes_by_criterion(weighted, members)
    for index, (code, pair) in enumerate(zip(most, extremes, strict=True)):
        row = names[int(weighted.places[pair])]
        largest = _largest_losses(weighted.criterion_ids, by_criterion[:, index])
        yield ChangedCase(
            str(row["case_id"]),
            int(counts[code]),
            float(means[0][code]),
            float(means[1][code]),
            float(change[code]),
            str(row["output_a"]),
            str(row["output_b"]),
            tuple((criterion_id, sign * loss) for criterion_id, loss in largest),
        )


def _changes_by_criterion(weighted: WeightedPairs, cases: Sequence[NDArray[np.intp]]) -> Floats:
    """Contribution of each criterion to some cases, averaged over the pairs of each: (criterion, case)."""
    count = len(cases)
    case_of = np.full(weighted.scores.pair_count, count)
    for index, pairs in enumerate(cases):
        case_of[pairs] = index
    changes = weighted_changes(weighted.scores, is_skipped=weighted.is_skipped)
    contributions = [
        np.bincount(case_of[criterion.pairs], added, count + 1)[:count]
        for criterion, added in zip(weighted.scores.criteria, changes, strict=True)
    ]
    sizes = np.array([pairs.size for pairs in cases])
    changed: Floats = np.array(contributions).reshape(len(contributions), count) / sizes
    return changed


def _largest_losses(criterion_ids: Sequence[str], added: Floats) -> Iterator[tuple[str, float]]:
    """Criteria with a negative contribution, largest loss first. added: (criterion,)."""
    for index in np.argsort(added, kind="stable").tolist():
        if added[index] < -TIED:
            yield criterion_ids[index], float(added[index])
