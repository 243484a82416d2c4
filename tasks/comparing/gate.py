"""A rule held against a comparison: does it fail, and by what figures?"""

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
# The overall score stands alone: there is nothing to adjust its p for.
FIGURES: dict[str, Collection[str]] = {
    OVERALL: (*(name for name in ROW_FIGURES if name != "p_adjusted"), *COUNTS, *PASS_FIGURES),
    CRITERION: (*ROW_FIGURES, *COUNTS),
    CATEGORY: (*ROW_FIGURES, *COUNTS),
}


@dataclass(frozen=True, slots=True)
class GateFinding:
    """What became of a rule. is_failed: it holds, or nobody can know; reasons: why, a sentence a pair of models,
    or a model that stands beside none.
    """

    rule: str
    is_failed: bool
    reasons: tuple[str, ...]


class RowFigures:
    """The figures of one pair of models, for a rule to ask."""

    def __init__(self, rows: Sequence[ComparedRow]) -> None:
        self._rows = {(row.scope, row.scope_id): row for row in rows}

    def ids(self, scope: str) -> list[str]:
        """The ids of a scope, in order: of criteria those of the rubric, not what some rows bring along."""
        return [scope_id for (found, scope_id), row in self._rows.items() if found == scope and not row.is_own]

    def figure(self, scope: str, scope_id: str, figure: str) -> float | None:
        """One figure; None where it is not known or the row is not there."""
        row = self._rows.get((scope, scope_id))
        if row is None:
            return None
        known = asdict(row.figures) | asdict(row.counts) | ({} if row.passes is None else asdict(row.passes))
        value: float | None = known.get(figure)
        return value


def hold_rule(
    text: str, rule: Rule, models: Sequence[tuple[str, Sequence[ComparedRow]]], alone: Sequence[str] = ()
) -> GateFinding:
    """Hold a rule against every pair of models; models: what each pair is called, and its rows.

    alone: the models that one side alone has, in words. It fails where it holds for one of them, where an unknown
    figure decides it, and where a model stands alone: what nobody knows passes no gate.
    """
    reasons = [f"{words}: nothing to hold the rule against" for words in alone]
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
