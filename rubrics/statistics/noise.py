"""A/A test: two sides drawn from replies about the same outputs, so that any difference is judge noise.

A side of a draw is one replicate of each output, the same for all its criteria. Replicates of an output are
exchangeable, whatever the criteria of one reply share, so each draw is as likely as the observed pairs. With two
replicates, the draws are the sign flips of a permutation test (Fisher 1935, chapter 3) under no change.

Rules evaluated on many comparisons at once, and their nominal rate of false alarms.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.comparison import (
    CORRECTED_FIGURES,
    PASS_FIGURES,
    WIN_FIGURES,
    measure_pairs,
    shared_clusters,
)
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Codes, Interval, Means, measure_means, sum_clusters
from gradebook.rubrics.statistics.means import TIED, MeanDifference, count_moved, measure_difference
from gradebook.rubrics.statistics.rules import OPERATORS, OVERALL, AnyOf, Comparison, Junction, Negation, Rule
from gradebook.rubrics.statistics.significance import adjust_for_many, adjust_step_down, mcnemar, wilcoxon

CHUNK_CELLS = 400_000  # draws x outputs in memory at once
# A bootstrap of each draw would take hours, a family spans models, which are drawn one by one, and ratings are of one
# reply.
UNDRAWN_FIGURES = ("boot_low", "boot_high", "p_family", "release_power", *CORRECTED_FIGURES, *WIN_FIGURES)

Picks = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class ReplicateScores:
    """One line of a comparison in each replicate. scope, scope_id: as named in a rule.

    scores: (pair, replicate), NaN if unscored. outputs: (pair,), index among the drawn outputs. cases: (pair,), from 0.
    bounds: range of a difference. is_own: whether the criterion is a per-case one.
    """

    scope: str
    scope_id: str
    scores: Floats
    outputs: Codes
    cases: Codes
    bounds: Interval = DIFFERENCES
    is_own: bool = False

    @property
    def clusters(self) -> Codes | None:
        """Cases; None if each has one pair."""
        return self.cases if np.bincount(self.cases).max(initial=0) > 1 else None

    def side(self, picks: Picks) -> Floats:
        """Scores of one side of some draws. picks: (draw, output). Returns (draw, pair)."""
        first = np.arange(self.outputs.size) * self.scores.shape[1]
        picked: Floats = self.scores.ravel().take(picks[:, self.outputs] + first)
        return picked


@dataclass(frozen=True, slots=True)
class DrawnOutputs:
    """Outputs of one model in each replicate. lines: measured lines of a comparison.

    passes: whether the pairs of the overall score pass, 1 or 0, NaN if unknown.
    """

    output_count: int
    replicate_count: int
    lines: tuple[ReplicateScores, ...]
    passes: ReplicateScores


@dataclass(frozen=True, slots=True)
class HeldDraws:
    """Results of the draws. held: (rule, draw), 1 or 0, or NaN if it is unknown whether the rule holds.

    overall_diffs: (draw,), B - A of the overall score; NaN if there is none.
    """

    held: Floats
    overall_diffs: Floats

    @property
    def is_fired(self) -> NDArray[np.bool_]:
        """Whether each rule fires in each draw: (rule, draw). An unknown result does not pass a gate."""
        is_fired: NDArray[np.bool_] = self.held != 0
        return is_fired


def draw_sides(
    rng: np.random.Generator, draw_count: int, output_count: int, replicate_count: int
) -> tuple[Picks, Picks]:
    """Draw one replicate for A and another one for B, for each output of each draw; both (draw, output), from 0."""
    shape = (draw_count, output_count)
    of_a = rng.integers(0, replicate_count, shape, dtype=np.int8)
    steps = rng.integers(1, replicate_count, shape, dtype=np.int8)
    return of_a, (of_a + steps) % np.int8(replicate_count)


def hold_in_draws(
    rules: Sequence[Rule],
    outputs: DrawnOutputs,
    draw_count: int,
    rng: np.random.Generator,
    chosen_from: float = 1,
) -> HeldDraws:
    """Draw two sides repeatedly, and evaluate all rules on the same draws. chosen_from: as in `measure_difference`."""
    chunk = max(1, CHUNK_CELLS // max(1, outputs.output_count))
    outcomes, diffs = [], []
    for start in range(0, draw_count, chunk):
        count = min(chunk, draw_count - start)
        sides = draw_sides(rng, count, outputs.output_count, outputs.replicate_count)
        figures = DrawnFigures(outputs, *sides, chosen_from)
        outcomes.append(np.stack([holds_in_each(rule, figures) for rule in rules]) if rules else np.empty((0, count)))
        diffs.append(figures.figures(OVERALL, "", "mean_diff"))
    return HeldDraws(np.concatenate(outcomes, axis=1), np.concatenate(diffs))


class DrawnFigures:
    """Figures of many draws, computed when a rule asks for them.

    of_a, of_b: (draw, output), replicate of each output on that side.
    """

    def __init__(self, outputs: DrawnOutputs, of_a: Picks, of_b: Picks, chosen_from: float = 1) -> None:
        self._chosen_from = chosen_from
        self._lines = {(line.scope, line.scope_id): line for line in outputs.lines}
        self._passes, self._of_a, self._of_b = outputs.passes, of_a, of_b
        self._means: dict[tuple[str, str], Means] = {}
        self._tests: dict[tuple[str, str], MeanDifference] = {}
        self._adjusted: dict[tuple[str, str], dict[str, Floats]] = {}

    @property
    def draw_count(self) -> int:
        return len(self._of_a)

    def ids(self, scope: str) -> list[str]:
        """Ids of a scope, in order; for criteria those of the rubric, without per-case ones."""
        return [
            scope_id for (line_scope, scope_id), line in self._lines.items() if line_scope == scope and not line.is_own
        ]

    def figures(self, scope: str, scope_id: str, figure: str) -> Floats:
        """One figure of each draw, (draw,); NaN if it is unknown or there is no such line."""
        line = self._lines.get((scope, scope_id))
        if line is None:
            return np.full(self.draw_count, np.nan)
        if figure in PASS_FIGURES:
            return self._pass_figure(figure)
        if figure in _ADJUSTED:
            return self._adjusted_ps(scope, figure)[scope_id]
        if figure in _OF_TESTS:
            return _OF_TESTS[figure](self._test_of(line))
        means = self._means_of(line)
        return _OF_MEANS[figure](means, line) if figure in _OF_MEANS else self._figure_of_pairs(figure, line)

    def _means_of(self, line: ReplicateScores) -> Means:
        key = (line.scope, line.scope_id)
        if key not in self._means:
            differences = line.side(self._of_b) - line.side(self._of_a)
            self._means[key] = measure_means(differences, line.clusters)
        return self._means[key]

    def _test_of(self, line: ReplicateScores) -> MeanDifference:
        key = (line.scope, line.scope_id)
        if key not in self._tests:
            differences = line.side(self._of_b) - line.side(self._of_a)
            self._tests[key] = _test(self._means_of(line), differences, line, self._chosen_from)
        return self._tests[key]

    def _adjusted_ps(self, scope: str, figure: str) -> dict[str, Floats]:
        key = scope, figure
        if key not in self._adjusted:
            lines = [line for (line_scope, _), line in self._lines.items() if line_scope == scope]
            raw = np.stack([self._test_of(line).p for line in lines], axis=1)
            adjusted = np.stack([_ADJUSTED[figure](ps) for ps in raw], axis=1)
            self._adjusted[key] = {line.scope_id: ps for line, ps in zip(lines, adjusted, strict=True)}
        return self._adjusted[key]

    def _figure_of_pairs(self, figure: str, line: ReplicateScores) -> Floats:
        """Figure that needs the pairs: means and shares for all draws at once, others draw by draw."""
        of_a, of_b = line.side(self._of_a), line.side(self._of_b)
        is_known = ~np.isnan(of_b - of_a)
        if figure in ("mean_a", "mean_b"):
            return measure_means(np.where(is_known, of_a if figure == "mean_a" else of_b, np.nan)).mean
        kind, _, measure = figure.partition("_")
        if kind in _IS_KIND and measure in ("count", "rate"):
            counts = (_IS_KIND[kind](of_b - of_a) & is_known).sum(axis=1).astype(np.float64)
            n = is_known.sum(axis=1)
            return counts if measure == "count" else np.where(n > 0, counts / np.maximum(n, 1), np.nan)
        values = []
        for scores_a, scores_b, is_pair in zip(of_a, of_b, is_known, strict=True):
            pairs = scores_a[is_pair], scores_b[is_pair], line.cases[is_pair]
            values.append(_figure_of_draw(figure, *pairs, line.bounds))
        return np.array(values)

    def _pass_figure(self, figure: str) -> Floats:
        line = self._passes
        of_a, of_b = line.side(self._of_a), line.side(self._of_b)
        changes = of_b - of_a
        match figure:
            case "gained_count" | "lost_count":
                is_counted = changes > 0 if figure == "gained_count" else changes < 0
                return np.asarray(is_counted.sum(axis=1), dtype=np.float64)
            case "pass_rate_a" | "pass_rate_b":
                side = of_a if figure == "pass_rate_a" else of_b
                return measure_means(np.where(np.isnan(changes), np.nan, side)).mean
            case "p_mcnemar":
                known_masks = [~np.isnan(change) for change in changes]
                passes = zip(of_a, of_b, known_masks, strict=True)
                return np.array([mcnemar(a[k], b[k], shared_clusters(line.cases[k])) for a, b, k in passes])
        means = measure_means(changes, line.clusters)
        if figure in ("pass_n", "pass_diff"):
            return means.n if figure == "pass_n" else means.mean
        tested = _test(means, changes, line)
        return tested.low if figure == "pass_diff_low" else tested.high


_IS_KIND: dict[str, Callable[[Floats], NDArray[np.bool_]]] = {
    "better": lambda differences: differences > TIED,
    "worse": lambda differences: differences < -TIED,
    "tied": lambda differences: np.abs(differences) <= TIED,
}


_ADJUSTED = {"p_adjusted": adjust_for_many, "p_holm": adjust_step_down}
_OF_TESTS: dict[str, Callable[[MeanDifference], Floats]] = {
    "p": lambda tested: tested.p,
    "diff_low": lambda tested: tested.low,
    "diff_high": lambda tested: tested.high,
}

_OF_MEANS: dict[str, Callable[[Means, ReplicateScores], Floats]] = {
    "n": lambda means, _: means.n,
    "case_count": lambda means, _: means.unit_count,
    "mean_diff": lambda means, _: means.mean,
    "sd_diff": lambda means, _: means.sd,
    "unscored_count": lambda means, line: line.outputs.size - means.n,
    # Each output is paired with itself.
    **dict.fromkeys(
        ("unpaired_count", "held_otherwise_count", "ambiguous_count"), lambda means, _: np.zeros_like(means.n)
    ),
}


def _test(means: Means, differences: Floats, line: ReplicateScores, chosen_from: float = 1) -> MeanDifference:
    """Test of each draw. differences: (draw, pair), NaN where a side is unscored."""
    sums = differences
    if line.clusters is not None:
        is_known = sum_clusters((~np.isnan(sums)).astype(np.float64), line.clusters) > 0
        sums = np.where(is_known, sum_clusters(np.nan_to_num(sums), line.clusters), np.nan)
    return measure_difference(means, count_moved(sums), line.bounds, chosen_from=chosen_from)


def _figure_of_draw(figure: str, of_a: Floats, of_b: Floats, cases: Codes, bounds: Interval) -> float:
    """Figure of the scored pairs of one draw."""
    if figure == "p_wilcoxon":
        return wilcoxon(of_b - of_a, shared_clusters(cases))
    value = getattr(measure_pairs(of_a, of_b, cases, bounds=bounds), figure)
    return np.nan if value is None else float(value)


P_FIGURES = frozenset({"p", "p_adjusted", "p_family", "p_holm", "p_wilcoxon", "p_mcnemar"})
SIGNED_FIGURES = frozenset({"mean_diff", "pass_diff", "effect_size"})


class ManyFigures(Protocol):
    """Figures of many comparisons, for the evaluation of rules."""

    @property
    def draw_count(self) -> int:
        """Number of comparisons."""

    def ids(self, scope: str) -> Sequence[str]:
        """Ids of a scope, in order."""

    def figures(self, scope: str, scope_id: str, figure: str) -> Floats:
        """One figure of each comparison, (draw,); NaN if unknown."""


@dataclass(frozen=True, slots=True)
class Nominal:
    """Rate at which a rule with one p should fire if nothing changed. rate: 0..1.

    each: `criterion` or `category` if the rate applies to each of them, as `any` tests an unadjusted p of each.
    """

    rate: float
    each: str | None


def holds_in_each(rule: Rule, comparisons: ManyFigures, scope_id: str | None = None) -> Floats:
    """Whether the rule holds in each comparison, (draw,): 1, 0, or NaN if it depends on an unknown figure."""
    match rule:
        case Comparison(name, sign, number):
            values = comparisons.figures(
                name.scope, (scope_id or "") if name.scope_id is None else name.scope_id, name.figure
            )
            is_met: Floats = np.asarray(OPERATORS[sign](values, number), dtype=np.float64)  # type: ignore[arg-type]
            return np.where(np.isnan(values), np.nan, is_met)
        case Negation(inner):
            return np.asarray(1.0 - holds_in_each(inner, comparisons, scope_id), dtype=np.float64)
        case Junction(rules, is_all):
            return _joined([holds_in_each(inner, comparisons, scope_id) for inner in rules], is_all=is_all)
        case AnyOf(scope, inner):
            outcomes = [holds_in_each(inner, comparisons, one) for one in comparisons.ids(scope)]
            # Without anything to test, a gate must not pass.
            return _joined(outcomes or [np.full(comparisons.draw_count, np.nan)], is_all=False)


def nominal_rate(rule: Rule) -> Nominal | None:
    """Nominal rate of a rule's only p: its bound, or half of it if the rule tests only one direction.

    None unless there is exactly one p with an upper bound, and no `or` and `not`.
    """
    conjuncts = list(_joined_by_and(rule, None))
    comparisons = [(part, around) for part, around in conjuncts if isinstance(part, Comparison)]
    bounds = [(part, around) for part, around in comparisons if part.name.figure in P_FIGURES]
    if len(comparisons) < len(conjuncts) or len(bounds) != 1:
        return None
    ((bound, around),) = bounds
    if bound.sign not in ("<", "<=") or not 0 < bound.number < 1:
        return None
    is_one_sided = any(
        its_around is around and _is_same_row(part, bound) and _is_direction(part) for part, its_around in comparisons
    )
    rate = bound.number / 2.0 if is_one_sided else bound.number
    is_of_each = bound.name.scope_id is None and bound.name.figure not in ("p_adjusted", "p_family", "p_holm")
    return Nominal(rate, around.scope if around is not None and is_of_each else None)


def _joined(outcomes: Sequence[Floats], *, is_all: bool) -> Floats:
    """All or any outcomes of each comparison: one false (true) decides, otherwise an unknown one makes the result
    unknown.
    """
    stacked = np.stack(outcomes)
    decisive = 0.0 if is_all else 1.0
    outermost = stacked.min(axis=0) if is_all else stacked.max(axis=0)  # NaN if one of them is
    return np.where((stacked == decisive).any(axis=0), decisive, outermost)


def _joined_by_and(rule: Rule, around: AnyOf | None) -> Iterator[tuple[Rule, AnyOf | None]]:
    """Parts of a rule that all have to hold, each with its enclosing `any`."""
    match rule:
        case Junction(rules, True):
            for inner in rules:
                yield from _joined_by_and(inner, around)
        case AnyOf(_, inner):
            yield from _joined_by_and(inner, rule)
        case _:
            yield rule, around


def _is_same_row(part: Comparison, bound: Comparison) -> bool:
    return (part.name.scope, part.name.scope_id) == (bound.name.scope, bound.name.scope_id)


def _is_direction(part: Comparison) -> bool:
    """Whether a comparison allows at most one half of the differences: below 0 or less, above 0 or more."""
    is_below = part.sign in ("<", "<=") and part.number <= 0
    is_above = part.sign in (">", ">=") and part.number >= 0
    return part.name.figure in SIGNED_FIGURES and (is_below or is_above)
