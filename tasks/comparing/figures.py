"""Rows of a comparison with all their figures: overall score, criteria and categories.

Remarks on the figures of two sides tell of conflicts, rough figures and distributions, by one template a case.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.rubric import NO_CATEGORY, Rubric, category_weights, scored_category_weights
from gradebook.rubrics.model.scores import OVERALL_DIGITS
from gradebook.rubrics.statistics.comparison import (
    CorrectedFigures,
    OpenFigures,
    PairFigures,
    PassFigures,
    WinFigures,
    measure_open,
    measure_pairs,
    measure_passes,
    with_power,
    without_change,
)
from gradebook.rubrics.statistics.distributions import SpreadFigures, measure_spread
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL
from gradebook.rubrics.statistics.significance import (
    Chance,
    adjust_families,
    adjust_for_many,
    adjust_step_down,
    chance_of_p,
)
from gradebook.rubrics.text.remarks import caution_words, conflict_words
from gradebook.tasks.comparing.case_pairs import Ends, PairCounts, PairedSides, ScorePairs
from gradebook.tasks.lake.rows import pair_name

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One row of a comparison of two models. scope: overall, criterion or category; scope_id: empty for overall.

    category: of a rubric's criterion, if it has one. passes, spread: only for the overall score. is_own: a per-case
    criterion. is_penalty: the weight is negative, so a higher score is worse. is_paired: False: of means over different
    cases. corrected: by people's ratings; None if there are none. wins: only for the overall score of
    published runs. open_figures: None if no score is missing.
    """

    model_a: str
    model_b: str
    scope: str
    scope_id: str
    category: str | None
    counts: PairCounts
    figures: PairFigures
    passes: PassFigures | None = None
    is_own: bool = False
    is_penalty: bool = False
    spread: SpreadFigures | None = None
    is_paired: bool = True
    corrected: CorrectedFigures | None = None
    wins: WinFigures | None = None
    open_figures: OpenFigures | None = None

    @property
    def conflict(self) -> str | None:
        """Note if the mean and the win count point in different directions."""
        return conflict_words(self.figures)

    @property
    def caution(self) -> str | None:
        """Note if the figures are rough."""
        return caution_words(self.figures)

    @property
    def is_regression(self) -> bool:
        """Whether B is worse beyond chance."""
        return self.outcome is Chance.BELOW

    @property
    def is_improvement(self) -> bool:
        """Whether B is better beyond chance."""
        return self.outcome is Chance.ABOVE

    @property
    def outcome(self) -> Chance:
        """Whether B is better (ABOVE) or worse (BELOW) beyond chance: `chance` is at most 0.05.

        UNKNOWN also if missing scores could be the reason: their bounds leave no difference beyond chance.
        """
        outcome = chance_of_p(self.merit_diff, self.chance)
        return Chance.UNKNOWN if outcome.is_beyond and self.is_left_open else outcome

    @property
    def is_left_open(self) -> bool:
        """Whether missing scores could turn the sign of the difference, or leave it to chance."""
        ends = self.open_figures
        if ends is None or ends.least_diff is None or ends.most_diff is None:
            return False
        low, high = ends.least_low, ends.most_high
        is_above = (self.figures.mean_diff or 0.0) > 0
        return (low is None or low <= 0.0) if is_above else (high is None or high >= 0.0)

    @property
    def is_unchanged(self) -> bool:
        """Whether every pair has the same output with the same score on both sides."""
        pair_count = self.figures.n + self.counts.unscored_count
        return self.figures.n > 0 and self.counts.unchanged_count == pair_count

    @property
    def merit_diff(self) -> float:
        """Improvement of B over A: the mean difference, negated for a penalty; 0 if unknown."""
        difference = self.figures.mean_diff or 0.0
        return -difference if self.is_penalty else difference

    @property
    def chance(self) -> float | None:
        """P adjusted for all rows of the comparison; of earlier versions' rows, for those of the same scope."""
        if self.figures.p_family is not None:
            return self.figures.p_family
        return self.figures.p if self.scope == OVERALL else self.figures.p_adjusted

    @property
    def is_compared(self) -> bool:
        """Whether any outputs of the two sides are paired."""
        return self.figures.n + self.counts.unscored_count > 0

    @property
    def pair_name(self) -> str:
        """Model, or both if they differ."""
        return pair_name(self.model_a, self.model_b)

    @property
    def name(self) -> str:
        """Display name of the row."""
        return {OVERALL: "overall", CRITERION: self.scope_id, CATEGORY: f"category {self.scope_id}"}[self.scope]

    def as_json(self) -> dict[str, Any]:
        id_field = {"category": self.scope_id} if self.scope == CATEGORY else {"criterion_id": self.scope_id}
        category_field = {"category": self.category} if self.scope == CRITERION else {}
        passes = {} if self.passes is None else asdict(self.passes)
        for extra in (self.corrected, self.wins, self.open_figures):
            passes |= {} if extra is None else asdict(extra)
        spread = {} if self.spread is None else asdict(self.spread)
        figures = {**asdict(self.figures), **asdict(self.counts), **passes, **spread}
        figures |= {"conflict": self.conflict, "caution": self.caution}
        figures |= {} if self.is_paired else {"is_paired": False}
        return {"model_a": self.model_a, "model_b": self.model_b, **id_field, **category_field, **figures}


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Maker of the rows of one pair of models. resample_count: of the bootstrap. chosen_from: as in `measure_pairs`.

    test_count: by how many tests p of the overall score is multiplied; None: its power is not simulated.
    """

    model_a: str
    model_b: str
    resample_count: int
    chosen_from: float = 1
    test_count: float | None = None

    def overall(self, sides: PairedSides, bounds: Interval) -> ComparedRow:
        """Row of the overall score; bounds: range of possible differences of two overall scores."""
        counts, figures, left_open = self._measure(sides, sides.overall, bounds, self.resample_count)
        if self.test_count is not None and sides.strata is None:
            is_scored = sides.overall.is_scored
            differences = (sides.overall.scores_b - sides.overall.scores_a)[is_scored]
            tests = {"test_count": self.test_count, "chosen_from": self.chosen_from}
            strata = sides.strata_at(sides.overall.places[is_scored])
            figures = with_power(figures, differences, sides.overall.cases[is_scored], bounds, strata=strata, **tests)
        passes = _measure_passes(sides)
        spread = _measure_spread(sides)
        identity = self.model_a, self.model_b, OVERALL, "", None
        return ComparedRow(*identity, counts, figures, passes, spread=spread, open_figures=left_open)

    def criteria(self, sides: PairedSides, ids: Sequence[str], rubric: Rubric) -> tuple[ComparedRow, ...]:
        """Rows of the criteria with these ids, in order; a bootstrap only for the rubric's criteria."""
        of_rubric = {criterion.id: criterion for criterion in rubric.criteria}
        rows = []
        for criterion_id in ids:
            if criterion_id not in sides.by_criterion:
                continue
            pairs = sides.by_criterion[criterion_id]
            is_own = criterion_id not in of_rubric
            resample_count = 0 if is_own else self.resample_count
            counts, figures, left_open = self._measure(sides, pairs, DIFFERENCES, resample_count)
            category = None if is_own else of_rubric[criterion_id].category
            is_penalty = not is_own and of_rubric[criterion_id].own_weight < 0
            identity = self.model_a, self.model_b, CRITERION, criterion_id
            row = ComparedRow(*identity, category, counts, figures, None, is_own, is_penalty, open_figures=left_open)
            rows.append(row)
        return adjust_rows(rows)

    def categories(self, sides: PairedSides, old: Rubric, new: Rubric, same: Sequence[str]) -> tuple[ComparedRow, ...]:
        """Rows of the categories that have the same criteria with the same weights in both rubrics.

        Per-case criteria are left out. A pair counts if both sides are scored on each weighted criterion of the
        category, whatever the rubric does with missing scores: a score that one side lacks can't be compared.
        """
        rows = []
        for category, pairs, bounds in pair_categories(sides, old, new, same):
            counts, figures, left_open = self._measure(sides, pairs, bounds, self.resample_count)
            identity = self.model_a, self.model_b, CATEGORY, category, None
            rows.append(ComparedRow(*identity, counts, figures, open_figures=left_open))
        return adjust_rows(rows)

    def _measure(
        self, sides: PairedSides, pairs: ScorePairs, bounds: Interval, resample_count: int
    ) -> tuple[PairCounts, PairFigures, OpenFigures | None]:
        is_scored = pairs.is_scored
        # Rounded like overall scores, so that a rubric's only criterion has the same figures as its overall score.
        scores_a, scores_b = (
            np.round(scores[is_scored], OVERALL_DIGITS) for scores in (pairs.scores_a, pairs.scores_b)
        )
        figures = measure_pairs(
            scores_a,
            scores_b,
            pairs.cases[is_scored],
            bounds=bounds,
            resample_count=resample_count,
            chosen_from=self.chosen_from,
            strata=sides.strata_at(pairs.places[is_scored]),
        )
        is_unchanged = sides.is_same_at(pairs.places) & pairs.is_equal
        missing = [
            np.zeros(is_scored.size, np.bool_) if mask is None else mask for mask in (pairs.missing_a, pairs.missing_b)
        ]
        missing_counts = [int(mask.sum()) for mask in missing]
        counts = replace(
            pairs.counts,
            missing_a_count=missing_counts[0],
            missing_b_count=missing_counts[1],
            unchanged_count=int(is_unchanged.sum()),
        )
        if is_scored.any() and is_unchanged.all():
            return counts, without_change(figures), None
        return (
            counts,
            figures,
            self._measure_open(sides, pairs, is_unchanged, missing, bounds) if any(missing_counts) else None,
        )

    def _measure_open(
        self,
        sides: PairedSides,
        pairs: ScorePairs,
        is_unchanged: NDArray[np.bool_],
        missing: Sequence[NDArray[np.bool_]],
        bounds: Interval,
    ) -> OpenFigures:
        """Figures over all pairs that have or are owed a score on both sides; an unchanged pair differs by 0."""
        ends = pairs.ends
        differences = [ends.low_b - ends.high_a, ends.high_b - ends.low_a]
        counted = ~np.isnan(differences[0])
        least, most = (np.where(is_unchanged, 0.0, difference)[counted] for difference in differences)
        return measure_open(
            (least, most),
            (missing[0][counted], missing[1][counted]),
            pairs.cases[counted],
            bounds=bounds,
            chosen_from=self.chosen_from,
            strata=sides.strata_at(pairs.places[counted]),
        )


def overall_test_count(pair_count: int, criterion_count: int) -> int:
    """Number by which p of an overall difference is multiplied at most, see `adjust_families`."""
    return pair_count * (2 if criterion_count > 1 else 1)


def adjust_for_comparison(pairs: Sequence[Sequence[ComparedRow]]) -> list[tuple[ComparedRow, ...]]:
    """Rows with p adjusted for all tests of the comparison. pairs: rows of each pair of models.

    Rows of the same figures are one test: the only criterion of a rubric or category.
    """
    primary: dict[tuple[Any, ...], float] = {}
    secondary: dict[tuple[Any, ...], float] = {}
    for index, rows in enumerate(pairs):
        for row in sorted(rows, key=lambda row: row.scope != OVERALL):
            if row.figures.p is not None and _test_key(index, row) not in primary:
                (primary if row.scope == OVERALL else secondary)[_test_key(index, row)] = row.figures.p
    families = adjust_families([*primary.values()], [*secondary.values()])
    p_by_test = dict(zip([*primary, *secondary], np.concatenate(families).tolist(), strict=True))
    return [
        tuple(replace(row, figures=replace(row.figures, p_family=p_by_test.get(_test_key(index, row)))) for row in rows)
        for index, rows in enumerate(pairs)
    ]


def _test_key(pair_index: int, row: ComparedRow) -> tuple[Any, ...]:
    return pair_index, row.figures.n, row.figures.mean_diff, row.figures.p


def pair_categories(
    sides: PairedSides, old: Rubric, new: Rubric, same: Sequence[str]
) -> Iterator[tuple[str, ScorePairs, Interval]]:
    """Pairs of each comparable category (see `RowMaker.categories`), and the range of their differences."""
    olds = category_weights(old)
    for category, weights in scored_category_weights(new).items():
        is_known = category != NO_CATEGORY and set(weights) <= {*same} & sides.by_criterion.keys()
        if is_known and olds.get(category) == weights:
            yield category, *_category_pairs(sides, weights)


def overall_row(rows: Sequence[ComparedRow]) -> ComparedRow | None:
    """Row of the overall score; None if the rubrics differ."""
    return next((row for row in rows if row.scope == OVERALL), None)


def are_unchanged(rows: Sequence[ComparedRow]) -> bool:
    """Whether every pair of all rows has the same output with the same score, or with none on both sides.

    A row without any score, such as that of an optional criterion that nobody rated, hides no change.
    """
    without = [row for row in rows if not (row.figures.n or row.counts.unpaired_count)]
    return any(row.is_unchanged for row in rows) and all(
        row.counts.unchanged_count == row.counts.unscored_count if row in without else row.is_unchanged for row in rows
    )


def worst_first(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    """Sort rows: the overall score first, then regressions, each by difference."""
    return sorted(rows, key=lambda row: (row.scope != OVERALL, not row.is_regression, _difference(row)))


def _difference(row: ComparedRow) -> float:
    return float("inf") if row.figures.mean_diff is None else row.merit_diff


def _measure_spread(sides: PairedSides) -> SpreadFigures:
    pairs, is_scored = sides.overall, sides.overall.is_scored
    strata = sides.strata_at(pairs.places[is_scored])
    return measure_spread(pairs.scores_a[is_scored], pairs.scores_b[is_scored], pairs.cases[is_scored], strata)


def _measure_passes(sides: PairedSides) -> PassFigures:
    """Pass figures over the pairs of the overall score: outputs with other per-case criteria pass by other rules."""
    overall, outputs = sides.overall, sides.outputs
    positions = np.searchsorted(outputs.places, overall.places)
    passed_a, passed_b = outputs.passed_a[positions], outputs.passed_b[positions]
    is_known = ~(np.isnan(passed_a) | np.isnan(passed_b))
    strata = sides.strata_at(overall.places[is_known])
    return measure_passes(passed_a[is_known], passed_b[is_known], overall.cases[is_known], strata)


def _category_pairs(sides: PairedSides, weights: Mapping[str, float]) -> tuple[ScorePairs, Interval]:
    """Weighted means of each pair over the category's criteria, and the range of their differences."""
    part_weights = dict(_category_parts(weights))
    base = sum(max(part, 0.0) for part in part_weights.values())
    pairs = [sides.by_criterion[criterion_id] for criterion_id in part_weights]
    places, rows = np.unique(np.concatenate([pair.places for pair in pairs]), return_inverse=True)
    pair_weights = np.repeat(list(part_weights.values()), [pair.places.size for pair in pairs]) / base
    cases = np.zeros(places.size, dtype=np.int64)
    cases[rows] = np.concatenate([pair.cases for pair in pairs])
    is_whole = np.bincount(rows, minlength=places.size) == len(part_weights)

    def means_of(scores: Iterable[Floats]) -> Floats:
        sums = np.bincount(rows, weights=pair_weights * np.concatenate([*scores]), minlength=places.size)
        return np.where(is_whole, sums, np.nan)

    def any_of(missing: Iterable[NDArray[np.bool_] | None]) -> NDArray[np.bool_] | None:
        missing_rows = [
            rows_of[mask] for rows_of, mask in zip(np.split(rows, splits), missing, strict=True) if mask is not None
        ]
        return np.isin(np.arange(places.size), np.concatenate(missing_rows)) & is_whole if missing_rows else None

    splits = np.cumsum([pair.places.size for pair in pairs])[:-1]
    means = [means_of(pair.scores_a for pair in pairs), means_of(pair.scores_b for pair in pairs)]
    missing = [any_of(pair.missing_a for pair in pairs), any_of(pair.missing_b for pair in pairs)]
    none = np.full(places.size, np.nan)
    unscored_count = int(np.isnan(means[0] + means[1]).sum())
    counts = sides.overall.counts  # pairs with different per-case criteria are still pairs for the rubric's criteria
    counts = PairCounts(counts.unpaired_count - counts.held_otherwise_count, 0, counts.ambiguous_count, unscored_count)
    of_missing = None
    if any(mask is not None for mask in missing):
        ends = [pair.ends for pair in pairs]
        turned = [  # a penalty counts most where its score is lowest
            end if part >= 0 else Ends(end.high_a, end.low_a, end.high_b, end.low_b)
            for end, part in zip(ends, part_weights.values(), strict=True)
        ]
        of_missing = Ends(*(means_of(getattr(end, name) for end in turned) for name in Ends.__slots__))
    category_pairs = ScorePairs(counts, places, cases, means[0], means[1], none, missing[0], missing[1], of_missing)
    return category_pairs, difference_bounds(part / base for part in part_weights.values())


def difference_bounds(shares: Iterable[float]) -> Interval:
    """Range of the difference of two weighted means. shares: of the criteria in the score, below 0 for a penalty."""
    penalty = sum(max(-share, 0.0) for share in shares)
    return Interval(-1.0 - penalty, 1.0 + penalty)


def _category_parts(weights: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Weights within a category; 1 each if all are gates."""
    has_weights = any(weights.values())
    for criterion_id, weight in weights.items():
        if weight or not has_weights:
            yield criterion_id, weight or 1.0


def adjust_rows(rows: Sequence[ComparedRow]) -> tuple[ComparedRow, ...]:
    """Rows with p adjusted for their number."""
    raw = [np.nan if row.figures.p is None else row.figures.p for row in rows]
    both = [[None if np.isnan(p) else float(p) for p in adjust(raw)] for adjust in (adjust_for_many, adjust_step_down)]
    return tuple(
        replace(row, figures=replace(row.figures, p_adjusted=p_adjusted, p_holm=p_holm))
        for row, p_adjusted, p_holm in zip(rows, *both, strict=True)
    )
