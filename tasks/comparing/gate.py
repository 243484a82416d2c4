"""Gates: the rules of --require and --fail-if evaluated on a comparison, with the figures behind the outcome."""

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from gradebook.rubrics.statistics.comparison import CORRECTED_FIGURES, PASS_FIGURES, ROW_FIGURES, WIN_FIGURES
from gradebook.rubrics.statistics.rule_parser import MARGINS, parse_rule, refuse_unknown_ids
from gradebook.rubrics.statistics.rules import (
    CATEGORY,
    CRITERION,
    OVERALL,
    Junction,
    Negation,
    Rule,
    describe_figures,
    holds,
    unknown_names,
)
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.figures import ComparedRow

MOST_FIGURES_NAMED = 12
MOST_REASONS_NAMED = 3
_MARGIN = re.compile(rf"(?:{'|'.join(MARGINS)})\s*\([^()]*\)")
COUNTS = tuple(field.name for field in fields(PairCounts))
# The overall score is a single test, so its p needs no adjustment.
_OF_MANY = ("p_adjusted", "p_holm")
FIGURES: dict[str, Collection[str]] = {
    OVERALL: (
        *(name for name in ROW_FIGURES if name not in _OF_MANY),
        *COUNTS,
        *PASS_FIGURES,
        *CORRECTED_FIGURES,
        *WIN_FIGURES,
    ),
    CRITERION: (*ROW_FIGURES, *COUNTS, *CORRECTED_FIGURES),
    CATEGORY: (*ROW_FIGURES, *COUNTS),
}


@dataclass(frozen=True, slots=True)
class GateRule:
    """Rules of a gate, as given. fail_if: fails the gate if it holds; require: has to hold."""

    fail_if: str | None = None
    require: str | None = None

    @property
    def option(self) -> str:
        """Option that names the gate in messages."""
        return "--fail-if" if self.require is None else "--require"

    @property
    def required(self) -> str:
        """Condition under which the gate passes, in the language of `--require`."""
        if self.fail_if is None:
            return _on_a_line(self.require or "")
        text = _on_a_line(self.fail_if)
        # There, the margin itself says what has to be shown.
        words = text if _MARGIN.fullmatch(text) else f"not ({_MARGIN.sub(lambda found: f'not {found[0]}', text)})"
        return words if self.require is None else f"{words} and ({_on_a_line(self.require)})"

    def parse(self) -> Rule:
        """Rule under which the gate fails. Raises `RuleError`."""
        parts = [rule for _, rule in self._parts()]
        return parts[0] if len(parts) == 1 else Junction(tuple(parts), is_all=False)

    def refuse_unknown_ids(self, ids: dict[str, Collection[str]]) -> None:
        """Check that the ids in the rules are compared. Raises `RuleError` for the first that is not."""
        for option, rule in self._parts():
            refuse_unknown_ids(rule, ids, option)

    def as_json(self) -> dict[str, Any]:
        text = self.require if self.fail_if is None else self.fail_if
        return {"rule": text} | asdict(self) | {"required": self.required}

    def _parts(self) -> list[tuple[str, Rule]]:
        parts = [] if self.fail_if is None else [("--fail-if", parse_rule(self.fail_if, FIGURES))]
        if self.require is not None:
            required = parse_rule(self.require, FIGURES, "--require", is_required=True)
            parts.append(("--require", Negation(required)))
        return parts


def gate_rule(fail_if: str | None, require: str | None) -> GateRule | None:
    """Rules of a gate; None without any."""
    return None if fail_if is None and require is None else GateRule(fail_if, require)


@dataclass(frozen=True, slots=True)
class GateFinding:
    """Outcome of a gate. is_failed: what is required does not hold, or can't be evaluated.

    reasons: what was found instead, for each pair of models, or model without a partner, that makes it fail.
    figures: of each pair whose outcome is known, those that decided it.
    """

    rule: GateRule
    is_failed: bool
    reasons: tuple[str, ...]
    figures: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Outcome in one sentence, with the first reasons."""
        outcome = "failed" if self.is_failed else "passed"
        found = first_of(self.reasons if self.is_failed else self.figures, MOST_REASONS_NAMED)
        return f"gate {outcome}: required {self.rule.required}, found {found}"

    @property
    def brief(self) -> str:
        """Clause of a sentence: the rule that is not met, with its first reasons."""
        found = first_of(self.reasons, MOST_REASONS_NAMED)
        if self.rule.require is None and self.rule.required != (text := _on_a_line(self.rule.fail_if or "")):
            return f"the gate against the baseline fails on {text} ({found})"
        return f"{self.rule.required} against the baseline is not shown ({found})"

    def as_json(self) -> dict[str, Any]:
        found = {"is_failed": self.is_failed, "reasons": list(self.reasons), "figures": list(self.figures)}
        return self.rule.as_json() | found


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
        known = asdict(row.figures) | asdict(row.counts)
        for others in (row.passes, row.corrected, row.wins):
            known |= {} if others is None else asdict(others)
        value: float | None = known.get(figure)
        return value


def evaluate_gate(
    gate: GateRule, models: Sequence[tuple[str, Sequence[ComparedRow]]], alone: Sequence[str] = ()
) -> GateFinding:
    """Evaluate a gate on every pair of models. models: name and rows of each pair.

    alone: descriptions of models without a partner. The gate fails if what is required does not hold for a pair, if an
    unknown figure decides it, or if a model has no partner: an unknown outcome passes no gate. What is found names its
    pair only where there are several.
    """
    rule = gate.parse()
    reasons = [f"{words}: nothing to check the rule against" for words in alone]
    found = []
    for name, rows in models:
        figures, whose = RowFigures(rows), "" if len(models) == 1 and not alone else f"{name}: "
        match holds(rule, figures):
            case None:
                reasons.append(f"{whose}no value of {_listed(unknown_names(rule, figures))}")
            case is_failed:
                found.append(f"{whose}{_listed(describe_figures(rule, figures))}")
                reasons += found[-1:] if is_failed else []
    return GateFinding(gate, bool(reasons), tuple(reasons), tuple(found))


def _on_a_line(text: str) -> str:
    return " ".join(text.split())


def first_of(sentences: Sequence[str], most: int) -> str:
    """The first sentences on one line, and how many more there are."""
    more = len(sentences) - most
    return "; ".join(sentences[:most]) + (f"; and {more:,} more" if more > 0 else "")


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_FIGURES_NAMED
    return ", ".join(words[:MOST_FIGURES_NAMED]) + (f" and {more} more" if more > 0 else "")
