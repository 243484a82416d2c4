"""Gates: the rules of --require and --fail-if evaluated on a comparison, with the figures behind the outcome."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from gradebook.rubrics.statistics.comparison import (
    CORRECTED_FIGURES,
    PASS_FIGURES,
    ROW_FIGURES,
    WIN_FIGURES,
    OpenFigures,
)
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.release import Ship
from gradebook.rubrics.statistics.rules import (
    AUTO,
    CATEGORY,
    CRITERION,
    EQUIVALENT,
    MARGINS,
    NOT_WORSE,
    OVERALL,
    Junction,
    Negation,
    Rule,
    RuleError,
    deciding_figures,
    holds,
    names_in,
    parse_rule,
    refuse_unknown_ids,
    unknown_figures,
    used_figures,
)
from gradebook.rubrics.statistics.significance import Chance
from gradebook.rubrics.text.remarks import figure_words, unknown_figure_words
from gradebook.rubrics.text.wording import counted, score_words
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.figures import ComparedRow, are_unchanged, overall_row, worst_first

MOST_FIGURES_NAMED = 12
MOST_REASONS_NAMED = 3
WORSE = "worse than the baseline"  # of reasons
_MARGIN = re.compile(rf"(?:{'|'.join(MARGINS)})\s*\([^()]*\)")
_NOT_WORSE, _EQUIVALENT = (re.compile(rf"{word}\s*\(([^()]*)\)") for word in (NOT_WORSE, EQUIVALENT))
COUNTS = tuple(field.name for field in fields(PairCounts))
# The overall score is a single test, so its p needs no adjustment.
_OF_MANY = ("p_adjusted", "p_holm")
# Figures that say how far B is from A: a rule on one of them may name a row that got worse as its reason.
_DIFFERENCES = {
    *("mean_diff", "diff_low", "diff_high", "boot_low", "boot_high", "effect_size"),
    *("p", "p_wilcoxon", "p_adjusted", "p_holm", "p_family"),
}
_CERTAIN = {"n", "case_count", *COUNTS}  # known for any values of the missing scores
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
            return _one_line(self.require or "")
        text = _one_line(self.fail_if)
        # In `--require`, a margin alone is the condition to show.
        condition = text if _MARGIN.fullmatch(text) else f"not ({_MARGIN.sub(lambda match: f'not {match[0]}', text)})"
        return condition if self.require is None else f"{condition} and ({_one_line(self.require)})"

    @property
    def margin(self) -> float | None:
        """M, if all that is required is not_worse_by(M)."""
        match = _NOT_WORSE.fullmatch(self.required)
        return None if match is None else float(match[1])

    @property
    def equivalence(self) -> float | None:
        """M, if all that is required is equivalent_within(M)."""
        match = _EQUIVALENT.fullmatch(self.required)
        return None if match is None else float(match[1])

    def parse(self) -> Rule:
        """Rule under which the gate fails. Raises `RuleError`."""
        rules = [rule for _, rule in self._parts()]
        return rules[0] if len(rules) == 1 else Junction(tuple(rules), is_all=False)

    def refuse_unknown_ids(self, ids: dict[str, Collection[str]]) -> None:
        """Check that the ids in the rules are compared. Raises `RuleError` for the first that is not."""
        for option, rule in self._parts():
            refuse_unknown_ids(rule, ids, option)

    def as_json(self) -> dict[str, Any]:
        text = self.require if self.fail_if is None else self.fail_if
        return {"rule": text} | asdict(self) | {"required": self.required}

    def _parts(self) -> list[tuple[str, Rule]]:
        rules = [] if self.fail_if is None else [("--fail-if", parse_rule(self.fail_if, FIGURES))]
        if self.require == AUTO:
            raise RuleError("--require", AUTO, "a rule: `gradebook evaluate` and suites choose one, by their cases")
        if self.require is not None:
            required = parse_rule(self.require, FIGURES, "--require", is_required=True)
            rules.append(("--require", Negation(required)))
        return rules


def gate_rule(fail_if: str | None, require: str | None) -> GateRule | None:
    """Rules of a gate; None without any."""
    return None if fail_if is None and require is None else GateRule(fail_if, require)


class Refusal(NamedTuple):
    """Model of B that a rule does not let pass. outcome: undecided if the cases can't tell.

    words: a plain clause; with case_count, what so many cases can't rule out.
    """

    model: str
    outcome: Ship
    words: str
    case_count: int | None = None

    @property
    def clause(self) -> str:
        return self.words if self.case_count is None else open_words(self.case_count, [self.words])


def open_words(case_count: int, what: Sequence[str]) -> str:
    """Clause on what so many cases can't rule out."""
    *first, last = what
    return f"{counted(case_count, 'case')} can't rule out {' and '.join(filter(None, [', '.join(first), last]))}"


@dataclass(frozen=True, slots=True)
class GateFinding:
    """Outcome of a gate. is_failed: the requirement does not hold, or can't be evaluated.

    reasons: what was found instead, for each pair of models, or model without a partner, that makes it fail.
    figures: of each pair whose outcome is known, those that decided it. is_undecided: no pair is known to fail, and
    some can't be evaluated: such a gate lets nothing pass either. alone: models that only one side has, which decide
    nothing. refused: the models of the pairs that make it fail; none if it fails for all models alike.
    """

    rule: GateRule
    is_failed: bool
    reasons: tuple[str, ...]
    figures: tuple[str, ...] = ()
    is_undecided: bool = False
    alone: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def outcome(self) -> str:
        """Outcome in a word."""
        return "undecided" if self.is_undecided else "failed" if self.is_failed else "passed"

    @property
    def sentence(self) -> str:
        """Outcome in one sentence, with the first reasons."""
        grounds = first_of(self.reasons if self.is_failed else self.figures, MOST_REASONS_NAMED)
        alone = f"; not compared: {first_of(self.alone, MOST_REASONS_NAMED)}" if self.alone else ""
        return f"gate {self.outcome}: required {self.rule.required}, found {grounds}{alone}"

    @property
    def brief(self) -> str:
        """Clause of a sentence: why the rule is not met, without its text where a plain clause says it."""
        if self.refused:
            several = len({refusal.clause for refusal in self.refused}) > 1
            clauses = [f"{refusal.model}: {refusal.clause}" if several else refusal.clause for refusal in self.refused]
            return first_of([*dict.fromkeys(clauses)], MOST_REASONS_NAMED)
        grounds = first_of(self.reasons, MOST_REASONS_NAMED)
        if self.is_undecided:
            return _unchecked_words(grounds)
        if self.rule.require is None and self.rule.required != (text := _one_line(self.rule.fail_if or "")):
            return f"the gate against the baseline fails on {text} ({grounds})"
        return f"{self.rule.required} against the baseline is not shown ({grounds})"

    def as_json(self) -> dict[str, Any]:
        finding = {"is_failed": self.is_failed, "reasons": list(self.reasons), "figures": list(self.figures)}
        finding |= {"is_undecided": self.is_undecided, "outcome": self.outcome, "alone": list(self.alone)}
        return self.rule.as_json() | finding


class RowFigures:
    """Figures of one pair of models, as a rule looks them up."""

    def __init__(self, rows: Sequence[ComparedRow]) -> None:
        self._rows = {(row.scope, row.scope_id): row for row in rows}

    def ids(self, scope: str) -> list[str]:
        """Ids of a scope, in order, without per-case criteria."""
        return [scope_id for (row_scope, scope_id), row in self._rows.items() if row_scope == scope and not row.is_own]

    def figure(self, scope: str, scope_id: str, figure: str) -> float | Interval | None:
        """One figure; None if it is unknown or its row is missing. If scores are missing, its range over them."""
        row = self._rows.get((scope, scope_id))
        if row is None:
            return None
        if row.open_figures is not None and figure not in _CERTAIN:
            return _open_figure(row, row.open_figures, figure)
        figures = asdict(row.figures) | asdict(row.counts)
        for extra in (row.passes, row.corrected, row.wins):
            figures |= {} if extra is None else asdict(extra)
        value: float | None = figures.get(figure)
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
    (count, first), *other_sides = [(count, side) for count, side in sides if count]
    also = "".join(f" and {other:,} in {side}" for other, side in other_sides)
    which = f"{count:,} of {counted(row.figures.n + unscored_count, 'pair' if row.is_paired else 'output')}"
    return f"{which} {'lack' if count != 1 else 'lacks'} {score} in {first}{also}"


def _open_figure(row: ComparedRow, ends: OpenFigures, figure: str) -> float | Interval | None:
    """Range of a figure over all values of the missing scores; None if it is not known."""
    if figure in ("mean_diff", "diff_low", "diff_high"):
        low = ends.least_low if figure == "diff_low" else ends.least_diff
        high = ends.most_high if figure == "diff_high" else ends.most_diff
        return None if low is None or high is None else Interval(low, high)
    if figure in ("p", "p_adjusted", "p_holm", "p_family"):  # an adjusted p is p or more
        lowest = [p for p in (ends.least_p, ends.most_p, row.figures.p) if p is not None]
        return Interval(min(lowest), 1.0) if lowest else None
    if (
        row.passes is not None
        and figure in PASS_FIGURES
        and row.passes.pass_n == row.figures.n + row.counts.unscored_count
    ):
        value: float | None = getattr(row.passes, figure)
        return value
    return None


class PairRows(NamedTuple):
    """Rows of one pair of models. name: of the pair; model_b: of B; rows: none if nothing of the pair is compared."""

    name: str
    model_b: str
    rows: Sequence[ComparedRow]


def evaluate_gate(
    gate: GateRule,
    models: Sequence[PairRows],
    alone: Sequence[str] = (),
    *,
    needs_all: bool = False,
    no_overall: str | None = None,
) -> GateFinding:
    """Evaluate a gate on every pair of models.

    alone: descriptions of models without a partner; needs_all: they decide too, and leave the gate undecided.
    no_overall: why overall scores are not compared. The gate fails if what is required does not hold for a pair, or if
    an unknown figure decides it: an unknown outcome passes no gate. What is found names its pair only where there are
    several. Missing scores may have any value: an outcome that depends on them is unknown.
    """
    rule = gate.parse()
    reasons = [*map(_alone_words, alone)] if needs_all else []
    all_grounds, is_known_to_fail, refused = [], False, list[Refusal]()
    for name, model_b, rows in models:
        figures, prefix = RowFigures(rows), "" if len(models) == 1 and not alone else f"{name}: "
        match holds(rule, figures):
            case None:
                missing = figures.missing_words(rule)
                certain = "no value" if missing is None else f"{missing}, so no certain value"
                why = f"{certain} of {_join_first([*map(unknown_figure_words, unknown_figures(rule, figures))])}"
                if no_overall is not None and any(figure_name.scope == OVERALL for figure_name in names_in(rule)):
                    why = no_overall
                reasons.append(f"{prefix}{why}")
                refused.append(Refusal(model_b, Ship.UNDECIDED, _unchecked_words(why)))
            case is_failed:
                grounds = _join_first([*map(figure_words, used_figures(rule, figures))])
                if are_unchanged(rows):
                    grounds = f"{grounds}: no output changed"
                all_grounds.append(f"{prefix}{grounds}")
                if is_failed:
                    reasons.append(all_grounds[-1])
                    refused += _refusals(gate, rule, rows, grounds)
                is_known_to_fail |= is_failed
    is_failed = bool(reasons)
    is_undecided = is_failed and not is_known_to_fail
    by_model = () if needs_all and alone else tuple(refused)
    alone_models = () if needs_all else tuple(alone)
    return GateFinding(gate, is_failed, tuple(reasons), tuple(all_grounds), is_undecided, alone_models, by_model)


def _alone_words(description: str) -> str:
    model, _, where = description.rpartition(": ")
    return f"{model} is {where}, and all models decide"


def _refusals(gate: GateRule, rule: Rule, rows: Sequence[ComparedRow], figures: str) -> Iterable[Refusal]:
    """Refusal of the model of a pair, by its margin, else by the scores that got worse, else by the figures."""
    overall = overall_row(rows)
    if gate.margin is not None and overall is not None and overall.figures.diff_low is not None:
        could, allowed = score_words(-overall.figures.diff_low), f"(allowed: {gate.margin:g})"
        high = overall.figures.diff_high
        is_beyond = high is not None and high < -gate.margin  # with several pairs p allows for them, the interval not
        if overall.outcome is not Chance.BELOW and not is_beyond:
            fall = f"a fall of {could} from the baseline {allowed}"
            yield Refusal(overall.model_b, Ship.UNDECIDED, fall, overall.figures.case_count)
        else:
            by = score_words(-(overall.figures.mean_diff or 0.0))
            clause = f"{WORSE} beyond chance, by {by} (at most {could}; allowed: {gate.margin:g})"
            yield Refusal(overall.model_b, Ship.MAY_NOT, clause)
        return
    if gate.equivalence is not None and overall is not None and overall.figures.diff_low is not None:
        yield _equivalence_refusal(gate.equivalence, overall)
        return
    deciding = deciding_figures(rule, RowFigures(rows))
    rows_in_rule = {(scope, scope_id) for scope, scope_id, figure in deciding if figure in _DIFFERENCES}
    worse = [row for row in worst_first(rows) if row.is_regression and (row.scope, row.scope_id) in rows_in_rule]
    if worse:
        falls = [f"{score_words(abs(row.figures.mean_diff or 0.0))} on {row.name}" for row in worse]
        clause = first_of(falls, MOST_REASONS_NAMED).replace(" on overall", " overall")
        yield Refusal(worse[0].model_b, Ship.MAY_NOT, f"{WORSE} beyond chance: {clause}")
    elif rows:
        clause = f"{gate.required} against the baseline is not met ({figures})"
        yield Refusal(rows[0].model_b, Ship.MAY_NOT, clause)


def _equivalence_refusal(margin: float, overall: ComparedRow) -> Refusal:
    """Refusal of a model that is not shown to be within the margin: undecided unless it is worse, or beyond it."""
    figures = overall.figures
    low, high = figures.diff_low or 0.0, figures.diff_high or 0.0
    distance, allowed = score_words(max(-low, high)), f"(allowed: {margin:g})"
    if overall.outcome is not Chance.BELOW and low < margin and high > -margin:
        far = f"a distance of {distance} from the baseline {allowed}"
        return Refusal(overall.model_b, Ship.UNDECIDED, far, figures.case_count)
    direction = "worse" if (figures.mean_diff or 0.0) < 0 else "better"
    by = score_words(abs(figures.mean_diff or 0.0))
    clause = f"{direction} than the baseline beyond chance, by {by} (at most {distance}; allowed: {margin:g})"
    return Refusal(overall.model_b, Ship.MAY_NOT, clause)


def _unchecked_words(why: str) -> str:
    return f"the rule against the baseline can't be checked: {why}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def first_of(sentences: Sequence[str], most: int) -> str:
    """The first sentences on one line, and how many more there are."""
    more = len(sentences) - most
    return "; ".join(sentences[:most]) + (f"; and {more:,} more" if more > 0 else "")


def _join_first(words: Sequence[str]) -> str:
    more = len(words) - MOST_FIGURES_NAMED
    return ", ".join(words[:MOST_FIGURES_NAMED]) + (f" and {more} more" if more > 0 else "")
