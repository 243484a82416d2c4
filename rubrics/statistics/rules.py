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
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite, isnan
from typing import NoReturn, Protocol

from gradebook.rubrics.model.errors import InputError
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
    """Name of a figure. scope_id: empty for the overall score, None for each id of an enclosing `any`.

    position: character in the rule, from 1.
    """

    scope: str
    scope_id: str | None
    figure: str
    position: int

    def __str__(self) -> str:
        prefix = [] if self.scope == OVERALL or self.scope_id is None else [self.scope, self.scope_id]
        return ".".join([*prefix, self.figure])


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


@dataclass(frozen=True, slots=True)
class RuleFigure:
    """Figure that a rule depends on. name: as in a rule, such as `criterion.tone.p`; None: the scope has no ids.

    value: None if unknown, an interval if missing scores leave it open.
    """

    scope: str
    name: str | None
    value: float | Interval | None = None


def holds(rule: Rule, figures: Figures, scope_id: str | None = None) -> bool | None:
    """Whether the rule holds; None if it depends on an unknown figure."""
    match rule:
        case Comparison(name, sign, number):
            return _is_met(_value(name, figures, scope_id), sign, number)
        case Negation(inner):
            is_inner_met = holds(inner, figures, scope_id)
            return None if is_inner_met is None else not is_inner_met
        case Junction(rules, is_all):
            return _joined([holds(inner, figures, scope_id) for inner in rules], is_all=is_all)
        case AnyOf(scope, inner):
            # Without anything to test, a gate must not pass.
            return _joined(
                [holds(inner, figures, member_id) for member_id in figures.ids(scope)] or [None], is_all=False
            )


def unknown_figures(rule: Rule, figures: Figures, scope_id: str | None = None) -> tuple[RuleFigure, ...]:
    """Unknown figures that the rule depends on, once each, in order; one without a name for an `any` over nothing."""
    return tuple(dict.fromkeys(_unknown(rule, figures, scope_id)))


def used_figures(rule: Rule, figures: Figures, scope_id: str | None = None) -> tuple[RuleFigure, ...]:
    """Figures that the rule used, once each; for an `any`, those that hold, or all if none does."""
    return tuple(dict.fromkeys(_used(rule, figures, scope_id)))


def deciding_figures(rule: Rule, figures: Figures, scope_id: str | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield scope, id and figure of each name behind the outcome: of several rules, of those that decide."""
    match rule:
        case Comparison(name):
            yield name.scope, (scope_id or "") if name.scope_id is None else name.scope_id, name.figure
        case Negation(inner):
            yield from deciding_figures(inner, figures, scope_id)
        case Junction(rules):
            outcome = holds(rule, figures, scope_id)
            for inner in rules:
                if holds(inner, figures, scope_id) is outcome:
                    yield from deciding_figures(inner, figures, scope_id)
        case AnyOf(scope, inner):
            ids = figures.ids(scope)
            for member_id in [member_id for member_id in ids if holds(inner, figures, member_id)] or ids:
                yield from deciding_figures(inner, figures, member_id)


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


def _joined(outcomes: list[bool | None], *, is_all: bool) -> bool | None:
    """All or any outcomes: one false (true) decides, otherwise an unknown one makes the result unknown."""
    decisive = not is_all
    if decisive in outcomes:
        return decisive
    return None if None in outcomes else is_all


def _unknown(rule: Rule, figures: Figures, scope_id: str | None) -> Iterator[RuleFigure]:
    match rule:
        case Comparison(name, sign, number):
            value = _value(name, figures, scope_id)
            if _is_met(value, sign, number) is None:
                yield RuleFigure(name.scope, _full_name(name, scope_id), value)
        case Negation(inner):
            yield from _unknown(inner, figures, scope_id)
        case Junction(rules):
            for inner in rules:
                yield from _unknown(inner, figures, scope_id)
        case AnyOf(scope, inner):
            ids = figures.ids(scope)
            if not ids:
                yield RuleFigure(scope, None)
            for member_id in ids:
                yield from _unknown(inner, figures, member_id)


def _used(rule: Rule, figures: Figures, scope_id: str | None) -> Iterator[RuleFigure]:
    match rule:
        case Comparison(name):
            yield RuleFigure(name.scope, _full_name(name, scope_id), _value(name, figures, scope_id))
        case Negation(inner):
            yield from _used(inner, figures, scope_id)
        case Junction(rules):
            for inner in rules:
                yield from _used(inner, figures, scope_id)
        case AnyOf(scope, inner):
            ids = figures.ids(scope)
            for member_id in [member_id for member_id in ids if holds(inner, figures, member_id)] or ids:
                yield from _used(inner, figures, member_id)


def _full_name(name: Name, scope_id: str | None) -> str:
    return f"{name.scope}.{scope_id}.{name.figure}" if name.scope_id is None else str(name)


MOST_CHARACTERS = 2_000
NOT_WORSE, EQUIVALENT = "not_worse_by", "equivalent_within"
MARGINS = (NOT_WORSE, EQUIVALENT)
RELEASE_MARGIN = 0.02  # of the default release rule
RELEASE_RULE = f"{NOT_WORSE}({RELEASE_MARGIN:g})"
AUTO = "auto"  # in place of a required rule: one that fits the number of cases
CHANCE_RULE = "not (mean_diff < 0 and p < 0.05)"  # of few cases: not shown to be worse
MOST_DEPTH = 50
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    |(?P<sign><=|>=|==|!=|<|>|=)
    |(?P<bracket>[()])
    |(?P<word>[A-Za-z_](?:[\w.:-]+|"[^"]*")*)
    )""",
    re.VERBOSE,
)
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


class RuleError(InputError):
    """A rule does not parse, or names an unknown figure."""


def _rule_error(source: str, position: int, found: str, expected: str) -> RuleError:
    """Build the error for a character of the rule. position: from 1."""
    return RuleError(f"{source}: at character {position}", found, expected)


@dataclass(frozen=True, slots=True)
class Token:
    """Token of a rule. position: from 1. kind: number, sign, bracket, word, or end."""

    kind: str
    text: str
    position: int


def parse_rule(
    text: str, figures: Mapping[str, Collection[str]], source: str = "--fail-if", *, is_required: bool = False
) -> Rule:
    """Parse a rule.

    figures: names allowed in each scope, `overall`, `criterion` and `category`. is_required: the rule says what has to
    hold; otherwise a rule on a margin is true where that is not shown, as it fails the gate. Raises `RuleError` with
    the position and the expected token.
    """
    if len(text) > MOST_CHARACTERS:
        raise _rule_error(source, MOST_CHARACTERS, f"{len(text):,} characters", f"at most {MOST_CHARACTERS:,}")
    parser = _Parser(_tokens(text, source), figures, source, is_required=is_required)
    rule = parser.disjunction(None, 0)
    parser.expect_end()
    return rule


def refuse_unknown_ids(rule: Rule, ids: dict[str, Collection[str]], source: str = "--fail-if") -> None:
    """Check that the ids of a rule are compared. Raises `RuleError` for the first that is not."""
    for name in names_in(rule):
        if name.scope != OVERALL and name.scope_id is not None and name.scope_id not in ids[name.scope]:
            near = _near(name.scope_id, ids[name.scope])
            raise _rule_error(source, name.position, f"the {name.scope} {name.scope_id!r}", near)


def _tokens(text: str, source: str) -> list[Token]:
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            word = text[start:].split(maxsplit=1)[0]
            raise _rule_error(source, start + 1, repr(word), "a name, a number or a sign")
        kind = str(match.lastgroup)
        tokens.append(Token(kind, match[kind], match.start(kind) + 1))
        position = match.end()
    return [*tokens, Token("end", "", end + 1)]


class _Parser:
    """Recursive-descent parser: one method per line of the grammar."""

    def __init__(
        self, tokens: list[Token], figures: Mapping[str, Collection[str]], source: str, *, is_required: bool
    ) -> None:
        self._tokens, self._figures, self._source = tokens, figures, source
        self._is_required = is_required
        self._position = 0

    def disjunction(self, scope: str | None, depth: int) -> Rule:
        """Parse conjunctions separated by `or`."""
        rules = [self._conjunction(scope, depth)]
        while self._take_word("or"):
            rules.append(self._conjunction(scope, depth))
        return rules[0] if len(rules) == 1 else Junction(tuple(rules), is_all=False)

    def expect_end(self) -> None:
        """Refuse anything after a complete rule."""
        if self._token.kind != "end":
            self._refuse("`and`, `or` or the end")

    def _conjunction(self, scope: str | None, depth: int) -> Rule:
        rules = [self._primary(scope, depth)]
        while self._take_word("and"):
            rules.append(self._primary(scope, depth))
        return rules[0] if len(rules) == 1 else Junction(tuple(rules), is_all=True)

    def _primary(self, scope: str | None, depth: int) -> Rule:
        if depth > MOST_DEPTH:
            self._refuse(f"at most {MOST_DEPTH} brackets and `not` within each other")
        if self._take_word("not"):
            if self._token.text in MARGINS and not self._is_required:
                self._refuse("no `not` before it: the gate fails unless it is shown")
            return Negation(self._primary(scope, depth + 1))
        if self._take_word("any"):
            return self._any("any", depth)
        if self._take_word("every"):
            scope_rule = self._any("every", depth)
            return Negation(AnyOf(scope_rule.scope, Negation(scope_rule.rule)))
        if self._token.text == "(":
            return self._bracketed(scope, depth)
        if self._token.text in MARGINS:
            return self._margin(scope)
        return self._comparison(scope)

    def _margin(self, scope: str | None) -> Rule:
        """Parse `not_worse_by(MARGIN)` or `equivalent_within(MARGIN)`; negated in a rule that fails the gate."""
        word = self._token.text
        low, high = (
            Name(scope or OVERALL, None if scope else "", figure, self._token.position)
            for figure in ("diff_low", "diff_high")
        )
        self._position += 1
        if self._token.text != "(":
            self._refuse(f"`(` and a margin, as in {word}(0.02)")
        self._position += 1
        token, margin = self._token, self._number()
        if margin <= 0:
            self._refuse_token(token, "a margin above 0")
        if self._token.text != ")":
            self._refuse("`)`")
        self._position += 1
        is_shown: Rule = Comparison(low, ">", -margin)
        if word == EQUIVALENT:
            is_shown = Junction((is_shown, Comparison(high, "<", margin)), is_all=True)
        return is_shown if self._is_required else Negation(is_shown)

    def _any(self, word: str, depth: int) -> AnyOf:
        inner = self._token.text
        if inner not in SCOPES:
            self._refuse(f"`criterion (...)` or `category (...)` after `{word}`")
        self._position += 1
        return AnyOf(inner, self._bracketed(inner, depth))

    def _bracketed(self, scope: str | None, depth: int) -> Rule:
        if self._token.text != "(":
            self._refuse("`(`")
        self._position += 1
        rule = self.disjunction(scope, depth + 1)
        if self._token.text != ")":
            self._refuse("`and`, `or` or `)`")
        self._position += 1
        return rule

    def _comparison(self, scope: str | None) -> Rule:
        if self._token.kind == "number":
            number = self._number()
            sign = self._sign()
            return Comparison(self._name(scope), _SWAPPED.get(sign, sign), number)
        name = self._name(scope)
        return Comparison(name, self._sign(), self._number())

    def _number(self) -> float:
        token = self._token
        if token.kind != "number":
            self._refuse("a number")
        number = float(token.text)
        if not isfinite(number):
            self._refuse("a finite number")
        self._position += 1
        return number

    def _sign(self) -> str:
        token = self._token
        if token.kind != "sign":
            self._refuse(f"one of {' '.join(OPERATORS)}")
        self._position += 1
        return token.text

    def _name(self, scope: str | None) -> Name:
        token = self._token
        if token.kind != "word" or token.text in ("and", "or"):
            self._refuse("a name, such as mean_diff or criterion.ID.p")
        self._position += 1
        head, _, rest = token.text.partition(".")
        if head in (CRITERION, CATEGORY):
            scope_id, _, figure = rest.rpartition(".")
            name = Name(head, scope_id.strip('"'), figure, token.position)
            if not name.scope_id:
                self._refuse_token(token, f"{head}.ID.FIGURE")
        else:
            name = Name(scope or OVERALL, None if scope else "", token.text, token.position)
        allowed = self._figures[name.scope]
        if name.figure not in allowed:
            if near := get_close_matches(token.text, MARGINS, 1, cutoff=0.7):
                self._refuse_token(token, f"`{near[0]}(0.02)` or a figure")
            self._refuse_token(token, _near(name.figure, allowed))
        return name

    @property
    def _token(self) -> Token:
        return self._tokens[self._position]

    def _take_word(self, word: str) -> bool:
        is_there = self._token == Token("word", word, self._token.position)
        self._position += is_there
        return is_there

    def _refuse(self, expected: str) -> NoReturn:
        self._refuse_token(self._token, expected)

    def _refuse_token(self, token: Token, expected: str) -> NoReturn:
        token_text = repr(token.text) if token.text else "the end"
        raise _rule_error(self._source, token.position, token_text, expected)


def _near(word: str, choices: Collection[str]) -> str:
    """Expected words: the closest name first, then all of them if they are few."""
    close = get_close_matches(word, list(choices), n=1, cutoff=0.5)
    other_choices = [name for name in choices if name not in close]
    listed = f"one of {', '.join(other_choices[:20])}" + (" ..." if len(other_choices) > 20 else "")
    if not close:
        return listed if other_choices else "none: nothing of that kind is compared"
    return f"{close[0]!r}" + (f" or {listed}" if other_choices else "")
