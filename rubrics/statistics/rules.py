"""Rules over the figures of a comparison, such as `mean_diff < -0.01 and p < 0.05`: parsed, never run as code.

  rule        comparison | not rule | rule and rule | rule or rule | (rule) | any criterion (rule)
              | every criterion (rule)
  comparison  name < number, number >= name, ...        < <= > >= = == !=
  margin      not_worse_by(NUMBER): diff_low > -NUMBER in a required rule, its negation in one that fails a gate
              equivalent_within(NUMBER): the same with `and diff_high < NUMBER`
  name        FIGURE | criterion.ID.FIGURE | category.ID.FIGURE

`not` binds tighter than `and`, `and` tighter than `or`. Within `any criterion (...)`, `every category (...)` and
so on, a bare FIGURE refers to each criterion or category in turn. An ID with blanks or signs is put in double quotes.

An unknown figure makes its comparison unknown, and so does an `any` over nothing: three-valued logic (Kleene 1952). A
figure that missing scores leave open has a range: its comparison is unknown unless it has one outcome over the range.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Protocol

from gradebook.rubrics.statistics.intervals import Interval

OVERALL, CRITERION, CATEGORY = "overall", "criterion", "category"
SCOPES = (CRITERION, CATEGORY)
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}


class Figures(Protocol):
    """Figures of one comparison, for the evaluation of rules."""

    def ids(self, scope: str) -> Sequence[str]:
        """Ids of a scope, in order."""

    def figure(self, scope: str, scope_id: str, figure: str) -> float | Interval | None:
        """One figure; None or NaN if unknown, an interval if it may be anything within."""


@dataclass(frozen=True, slots=True)
class Name:
    """Figure by its place. scope_id: empty for the overall score, None for each id of an enclosing `any`.

    position: place in the rule, from 1.
    """

    scope: str
    scope_id: str | None
    figure: str
    position: int

    def __str__(self) -> str:
        parts = [] if self.scope == OVERALL or self.scope_id is None else [self.scope, self.scope_id]
        return ".".join([*parts, self.figure])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a figure with a number; the name is always on the left."""

    name: Name
    sign: str
    number: float


@dataclass(frozen=True, slots=True)
class Negation:
    """Negated rule."""

    rule: "Rule"


@dataclass(frozen=True, slots=True)
class Junction:
    """Rules that all have to hold (is_all), or at least one of them."""

    rules: tuple["Rule", ...]
    is_all: bool


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Rule that at least one of a scope's ids has to meet."""

    scope: str
    rule: "Rule"


Rule = Comparison | Negation | Junction | AnyOf


def holds(rule: Rule, figures: Figures, scope_id: str | None = None) -> bool | None:
    """Whether the rule holds; None if it depends on an unknown figure."""
    match rule:
        case Comparison(name, sign, number):
            return _is_met(_value(name, figures, scope_id), sign, number)
        case Negation(inner):
            found = holds(inner, figures, scope_id)
            return None if found is None else not found
        case Junction(rules, is_all):
            return _joined([holds(inner, figures, scope_id) for inner in rules], is_all=is_all)
        case AnyOf(scope, inner):
            # Without anything to test, a gate must not pass.
            return _joined([holds(inner, figures, each) for each in figures.ids(scope)] or [None], is_all=False)


def unknown_names(rule: Rule, figures: Figures, scope_id: str | None = None) -> tuple[str, ...]:
    """Unknown figures that the rule depends on, once each, in order, open ones with their range; `criterion to compare`
    for an `any` over nothing.
    """
    return tuple(dict.fromkeys(_unknown(rule, figures, scope_id)))


def describe_figures(rule: Rule, figures: Figures, scope_id: str | None = None) -> tuple[str, ...]:
    """Figures that the rule used, `mean_diff = -0.03`, once each; for an `any`, those that hold, or all if none
    does.
    """
    return tuple(dict.fromkeys(_described(rule, figures, scope_id)))


def names_in(rule: Rule) -> Iterator[Name]:
    """Yield every name of a rule, in order."""
    match rule:
        case Comparison(name):
            yield name
        case Negation(inner) | AnyOf(_, inner):
            yield from names_in(inner)
        case Junction(rules):
            for inner in rules:
                yield from names_in(inner)


def _value(name: Name, figures: Figures, scope_id: str | None) -> float | Interval | None:
    value = figures.figure(name.scope, (scope_id or "") if name.scope_id is None else name.scope_id, name.figure)
    if isinstance(value, Interval):
        return value.low if value.low == value.high else value
    return None if value is None or isnan(value) else float(value)


def _is_met(value: float | Interval | None, sign: str, number: float) -> bool | None:
    if not isinstance(value, Interval):
        return None if value is None else OPERATORS[sign](value, number)
    if sign in ("=", "==", "!="):
        return None if value.low <= number <= value.high else sign == "!="
    outcomes = {OPERATORS[sign](end, number) for end in (value.low, value.high)}
    return outcomes.pop() if len(outcomes) == 1 else None


def _joined(found: list[bool | None], *, is_all: bool) -> bool | None:
    """All or any of them: one false (true) decides, otherwise an unknown one makes the result unknown."""
    decisive = not is_all
    if decisive in found:
        return decisive
    return None if None in found else is_all


def _unknown(rule: Rule, figures: Figures, scope_id: str | None) -> Iterator[str]:
    match rule:
        case Comparison(name, sign, number):
            value = _value(name, figures, scope_id)
            if _is_met(value, sign, number) is None:
                yield _shown(name, scope_id) + (f" ({_figure_words(value)})" if value is not None else "")
        case Negation(inner):
            yield from _unknown(inner, figures, scope_id)
        case Junction(rules):
            for inner in rules:
                yield from _unknown(inner, figures, scope_id)
        case AnyOf(scope, inner):
            ids = figures.ids(scope)
            if not ids:
                yield f"{scope} to compare"
            for each in ids:
                yield from _unknown(inner, figures, each)


def _described(rule: Rule, figures: Figures, scope_id: str | None) -> Iterator[str]:
    match rule:
        case Comparison(name):
            value = _value(name, figures, scope_id)
            yield f"{_shown(name, scope_id)} = {_figure_words(value)}"
        case Negation(inner):
            yield from _described(inner, figures, scope_id)
        case Junction(rules):
            for inner in rules:
                yield from _described(inner, figures, scope_id)
        case AnyOf(scope, inner):
            ids = figures.ids(scope)
            for each in [each for each in ids if holds(inner, figures, each)] or ids:
                yield from _described(inner, figures, each)


def _figure_words(value: float | Interval | None) -> str:
    if isinstance(value, Interval):
        return f"{value.low:.4g} to {value.high:.4g}"
    return "unknown" if value is None else f"{value:.4g}"


def _shown(name: Name, scope_id: str | None) -> str:
    return f"{name.scope}.{scope_id}.{name.figure}" if name.scope_id is None else str(name)
