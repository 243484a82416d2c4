"""A rule held against a comparison: does it fail, and by what figures?"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from rubrics.statistics.comparison import PASS_FIGURES, ROW_FIGURES
from rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL, Rule, describe_figures, holds, unknown_names
from tasks.comparing.rows import ComparedRow

MOST_FIGURES_NAMED = 12
# The overall score stands alone: there is nothing to adjust its p for.
FIGURES: dict[str, Collection[str]] = {
    OVERALL: (*(name for name in ROW_FIGURES if name != "p_adjusted"), *PASS_FIGURES),
    CRITERION: ROW_FIGURES,
    CATEGORY: ROW_FIGURES,
}


@dataclass(frozen=True, slots=True)
class GateFinding:
    """What became of a rule. is_failed: it holds, or nobody can know; reasons: why, a sentence a pair of models."""

    rule: str
    is_failed: bool
    reasons: tuple[str, ...]


class RowFigures:
    """The figures of one pair of models, for a rule to ask."""

    def __init__(self, rows: Sequence[ComparedRow]) -> None:
        self._rows = {(row.scope, row.scope_id): row for row in rows}

    def ids(self, scope: str) -> list[str]:
        """The ids of a scope, in order."""
        return [scope_id for found, scope_id in self._rows if found == scope]

    def figure(self, scope: str, scope_id: str, figure: str) -> float | None:
        """One figure; None where it is not known or the row is not there."""
        row = self._rows.get((scope, scope_id))
        if row is None:
            return None
        known = asdict(row.figures) | ({} if row.passes is None else asdict(row.passes))
        value: float | None = known.get(figure)
        return value


def hold_rule(text: str, rule: Rule, models: Sequence[tuple[str, Sequence[ComparedRow]]]) -> GateFinding:
    """Hold a rule against every pair of models; models: what each pair is called, and its rows.

    It fails where it holds for one of them, or where an unknown figure decides it: what nobody knows passes no gate.
    """
    reasons = []
    for name, rows in models:
        figures = RowFigures(rows)
        match holds(rule, figures):
            case True:
                reasons.append(f"{name}: it holds: {_listed(describe_figures(rule, figures))}")
            case None:
                reasons.append(f"{name}: not known whether it holds: no {_listed(unknown_names(rule, figures))}")
    return GateFinding(text, bool(reasons), tuple(reasons))


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_FIGURES_NAMED
    return ", ".join(words[:MOST_FIGURES_NAMED]) + (f" and {more} more" if more > 0 else "")
