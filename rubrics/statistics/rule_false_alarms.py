"""Rules evaluated on many comparisons at once, and their nominal rate of false alarms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.rules import OPERATORS, AnyOf, Comparison, Junction, Negation, Rule

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


def holds_in_each(rule: Rule, found: ManyFigures, scope_id: str | None = None) -> Floats:
    """Whether the rule holds in each comparison, (draw,): 1, 0, or NaN if it depends on an unknown figure."""
    match rule:
        case Comparison(name, sign, number):
            values = found.figures(
                name.scope, (scope_id or "") if name.scope_id is None else name.scope_id, name.figure
            )
            is_met: Floats = np.asarray(OPERATORS[sign](values, number), dtype=np.float64)  # type: ignore[arg-type]
            return np.where(np.isnan(values), np.nan, is_met)
        case Negation(inner):
            return np.asarray(1.0 - holds_in_each(inner, found, scope_id), dtype=np.float64)
        case Junction(rules, is_all):
            return _joined([holds_in_each(inner, found, scope_id) for inner in rules], is_all=is_all)
        case AnyOf(scope, inner):
            each = [holds_in_each(inner, found, one) for one in found.ids(scope)]
            # Without anything to test, a gate must not pass.
            return _joined(each or [np.full(found.draw_count, np.nan)], is_all=False)


def nominal_rate(rule: Rule) -> Nominal | None:
    """Nominal rate of a rule's only p: its bound, or half of it if the rule tests only one direction.

    None unless there is exactly one p with an upper bound, and no `or` and `not`.
    """
    parts = list(_joined_by_and(rule, None))
    comparisons = [(part, around) for part, around in parts if isinstance(part, Comparison)]
    bounds = [(part, around) for part, around in comparisons if part.name.figure in P_FIGURES]
    if len(comparisons) < len(parts) or len(bounds) != 1:
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


def _joined(found: Sequence[Floats], *, is_all: bool) -> Floats:
    """All or any of them, for each comparison: one false (true) decides, otherwise an unknown one makes the result
    unknown.
    """
    stacked = np.stack(found)
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
    """Whether it allows at most one half of the differences: below 0 or less, above 0 or more."""
    is_below = part.sign in ("<", "<=") and part.number <= 0
    is_above = part.sign in (">", ">=") and part.number >= 0
    return part.name.figure in SIGNED_FIGURES and (is_below or is_above)
