"""Gates: a --fail-if rule evaluated on a comparison, with the figures behind the outcome."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields

from gradebook.rubrics.statistics.comparison import PASS_FIGURES, ROW_FIGURES
from gradebook.rubrics.statistics.rules import (
    CATEGORY,
    CRITERION,
    OVERALL,
    Rule,
    describe_figures,
    holds,
    unknown_names,
)
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.figures import ComparedRow

MOST_FIGURES_NAMED = 12
COUNTS = tuple(field.name for field in fields(PairCounts))
# The overall score is a single test, so its p needs no adjustment.
FIGURES: dict[str, Collection[str]] = {
    OVERALL: (*(name for name in ROW_FIGURES if name != "p_adjusted"), *COUNTS, *PASS_FIGURES),
    CRITERION: (*ROW_FIGURES, *COUNTS),
    CATEGORY: (*ROW_FIGURES, *COUNTS),
}


@dataclass(frozen=True, slots=True)
class GateFinding:
    """Outcome of a rule. is_failed: the rule holds, or can't be evaluated.

    reasons: one sentence for each pair of models, or model without a partner, that makes it fail.
    """

    rule: str
    is_failed: bool
    reasons: tuple[str, ...]


class RowFigures:
    """Figures of one pair of models, as a rule looks them up."""

    def __init__(self, rows: Sequence[ComparedRow]) -> None:
        self._rows = {(row.scope, row.scope_id): row for row in rows}

    def ids(self, scope: str) -> list[str]:
        """Ids of a scope, in order, without per-case criteria."""
        return [scope_id for (found, scope_id), row in self._rows.items() if found == scope and not row.is_own]

    def figure(self, scope: str, scope_id: str, figure: str) -> float | None:
        """One figure; None if it is unknown or its row is missing."""
        row = self._rows.get((scope, scope_id))
        if row is None:
            return None
        known = asdict(row.figures) | asdict(row.counts) | ({} if row.passes is None else asdict(row.passes))
        value: float | None = known.get(figure)
        return value


def evaluate_rule(
    text: str, rule: Rule, models: Sequence[tuple[str, Sequence[ComparedRow]]], alone: Sequence[str] = ()
) -> GateFinding:
    """Evaluate a rule on every pair of models. models: name and rows of each pair.

    alone: descriptions of models without a partner. The gate fails if the rule holds for a pair, if an unknown figure
    decides it, or if a model has no partner: an unknown outcome passes no gate.
    """
    reasons = [f"{words}: nothing to check the rule against" for words in alone]
    for name, rows in models:
        figures = RowFigures(rows)
        match holds(rule, figures):
            case True:
                reasons.append(f"{name}: the rule holds: {_listed(describe_figures(rule, figures))}")
            case None:
                reasons.append(f"{name}: the rule can't be evaluated without {_listed(unknown_names(rule, figures))}")
    return GateFinding(text, bool(reasons), tuple(reasons))


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_FIGURES_NAMED
    return ", ".join(words[:MOST_FIGURES_NAMED]) + (f" and {more} more" if more > 0 else "")
