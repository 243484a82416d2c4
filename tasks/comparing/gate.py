"""Gates: the rules of --require and --fail-if evaluated on a comparison, with the figures behind the outcome."""

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.comparison import (
    CORRECTED_FIGURES,
    PASS_FIGURES,
    ROW_FIGURES,
    WIN_FIGURES,
    OpenFigures,
)
from gradebook.rubrics.statistics.intervals import Interval
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
    names_in,
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
_CERTAIN = {"n", "case_count", *COUNTS}  # whatever the missing scores are
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
    figures: of each pair whose outcome is known, those that decided it. is_undecided: no pair is known to fail, and
    some can't be evaluated: such a gate lets nothing pass either.
    """

    rule: GateRule
    is_failed: bool
    reasons: tuple[str, ...]
    figures: tuple[str, ...] = ()
    is_undecided: bool = False

    @property
    def sentence(self) -> str:
        """Outcome in one sentence, with the first reasons."""
        outcome = "undecided" if self.is_undecided else "failed" if self.is_failed else "passed"
        found = first_of(self.reasons if self.is_failed else self.figures, MOST_REASONS_NAMED)
        return f"gate {outcome}: required {self.rule.required}, found {found}"

    @property
    def brief(self) -> str:
        """Clause of a sentence: the rule that is not met, with its first reasons."""
        found = first_of(self.reasons, MOST_REASONS_NAMED)
        if self.is_undecided:
            return f"{self.rule.required} against the baseline can't be checked ({found})"
        if self.rule.require is None and self.rule.required != (text := _on_a_line(self.rule.fail_if or "")):
            return f"the gate against the baseline fails on {text} ({found})"
        return f"{self.rule.required} against the baseline is not shown ({found})"

    def as_json(self) -> dict[str, Any]:
        found = {"is_failed": self.is_failed, "reasons": list(self.reasons), "figures": list(self.figures)}
        return self.rule.as_json() | found | {"is_undecided": self.is_undecided}


class RowFigures:
    """Figures of one pair of models, as a rule looks them up."""

    def __init__(self, rows: Sequence[ComparedRow]) -> None:
        self._rows = {(row.scope, row.scope_id): row for row in rows}

    def ids(self, scope: str) -> list[str]:
        """Ids of a scope, in order, without per-case criteria."""
        return [scope_id for (found, scope_id), row in self._rows.items() if found == scope and not row.is_own]

    def figure(self, scope: str, scope_id: str, figure: str) -> float | Interval | None:
        """One figure; None if it is unknown or its row is missing. If scores are missing, its range over them."""
        row = self._rows.get((scope, scope_id))
        if row is None:
            return None
        if row.open_figures is not None and figure not in _CERTAIN:
            return _open_figure(row, row.open_figures, figure)
        known = asdict(row.figures) | asdict(row.counts)
        for others in (row.passes, row.corrected, row.wins):
            known |= {} if others is None else asdict(others)
        value: float | None = known.get(figure)
        return value

    def missing_words(self, rule: Rule) -> str | None:
        """How many pairs lack a score of the first row that the rule names and that lacks any; None without one."""
        for name in names_in(rule):
            ids = self.ids(name.scope) if name.scope_id is None else [name.scope_id]
            for row in (self._rows.get((name.scope, scope_id)) for scope_id in ids):
                if row is not None and row.open_figures is not None:
                    return missing_words(row)
        return None


def missing_words(row: ComparedRow) -> str:
    """How many pairs of a row lack a score, by side; for a criterion or category, of which."""
    counts, unscored_count = row.counts, row.counts.unscored_count
    score = "the overall score" if row.scope == OVERALL else f"the score of {row.name}"
    score = score if unscored_count else f"a part of {score}"
    sides = [(counts.missing_a_count, "A"), (counts.missing_b_count, "B")]
    (count, first), *others = [(count, side) for count, side in sides if count]
    also = "".join(f" and {other:,} in {side}" for other, side in others)
    which = f"{count:,} of {counted(row.figures.n + unscored_count, 'pair' if row.is_paired else 'output')}"
    return f"{which} {'lack' if count != 1 else 'lacks'} {score} in {first}{also}"


def _open_figure(row: ComparedRow, ends: OpenFigures, figure: str) -> float | Interval | None:
    """Range of a figure over all values of the missing scores; None if it is not known."""
    if figure in ("mean_diff", "diff_low", "diff_high"):
        low = ends.least_low if figure == "diff_low" else ends.least_diff
        high = ends.most_high if figure == "diff_high" else ends.most_diff
        return None if low is None or high is None else Interval(low, high)
    if figure in ("p", "p_adjusted", "p_holm", "p_family"):  # an adjusted p is p or more
        lowest = [each for each in (ends.least_p, ends.most_p, row.figures.p) if each is not None]
        return Interval(min(lowest), 1.0) if lowest else None
    if (
        row.passes is not None
        and figure in PASS_FIGURES
        and row.passes.pass_n == row.figures.n + row.counts.unscored_count
    ):
        value: float | None = getattr(row.passes, figure)
        return value
    return None


def evaluate_gate(
    gate: GateRule, models: Sequence[tuple[str, Sequence[ComparedRow]]], alone: Sequence[str] = ()
) -> GateFinding:
    """Evaluate a gate on every pair of models. models: name and rows of each pair.

    alone: descriptions of models without a partner. The gate fails if what is required does not hold for a pair, if an
    unknown figure decides it, or if a model has no partner: an unknown outcome passes no gate. What is found names its
    pair only where there are several. Missing scores may have any value: an outcome that depends on them is unknown.
    """
    rule = gate.parse()
    reasons = [f"{words}: nothing to check the rule against" for words in alone]
    found, is_known_to_fail = [], False
    for name, rows in models:
        figures, whose = RowFigures(rows), "" if len(models) == 1 and not alone else f"{name}: "
        match holds(rule, figures):
            case None:
                missing = figures.missing_words(rule)
                certain = "no value" if missing is None else f"{missing}, so no certain value"
                reasons.append(f"{whose}{certain} of {_listed(unknown_names(rule, figures))}")
            case is_failed:
                words = _listed(describe_figures(rule, figures))
                if rows and all(row.is_unchanged for row in rows):
                    words = f"{words}: no output changed"
                found.append(f"{whose}{words}")
                reasons += found[-1:] if is_failed else []
                is_known_to_fail |= is_failed
    is_failed = bool(reasons)
    return GateFinding(gate, is_failed, tuple(reasons), tuple(found), is_failed and not is_known_to_fail)


def _on_a_line(text: str) -> str:
    return " ".join(text.split())


def first_of(sentences: Sequence[str], most: int) -> str:
    """The first sentences on one line, and how many more there are."""
    more = len(sentences) - most
    return "; ".join(sentences[:most]) + (f"; and {more:,} more" if more > 0 else "")


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_FIGURES_NAMED
    return ", ".join(words[:MOST_FIGURES_NAMED]) + (f" and {more} more" if more > 0 else "")
