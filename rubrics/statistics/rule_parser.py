"""Parser of rules over the figures of a comparison; `rules` describes the language."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import NoReturn

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.rules import (
    CATEGORY,
    CRITERION,
    OPERATORS,
    OVERALL,
    SCOPES,
    AnyOf,
    Comparison,
    Junction,
    Name,
    Negation,
    Rule,
    names_in,
)

MOST_LETTERS = 2_000
NOT_WORSE, EQUIVALENT = "not_worse_by", "equivalent_within"
MARGINS = (NOT_WORSE, EQUIVALENT)
RELEASE_MARGIN = 0.02  # of the default release rule
RELEASE_RULE = f"{NOT_WORSE}({RELEASE_MARGIN:g})"
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
    the place and the expected token.
    """
    if len(text) > MOST_LETTERS:
        raise _rule_error(source, MOST_LETTERS, f"{len(text):,} characters", f"at most {MOST_LETTERS:,}")
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
    tokens, place = [], 0
    end = len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            at = place + len(text[place:]) - len(text[place:].lstrip())
            word = text[at:].split(maxsplit=1)[0]
            raise _rule_error(source, at + 1, repr(word), "a name, a number or a sign")
        kind = str(found.lastgroup)
        tokens.append(Token(kind, found[kind], found.start(kind) + 1))
        place = found.end()
    return [*tokens, Token("end", "", end + 1)]


class _Parser:
    """Recursive-descent parser: one method per line of the grammar."""

    def __init__(
        self, tokens: list[Token], figures: Mapping[str, Collection[str]], source: str, *, is_required: bool
    ) -> None:
        self._tokens, self._figures, self._source = tokens, figures, source
        self._is_required = is_required
        self._place = 0

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
        self._place += 1
        if self._token.text != "(":
            self._refuse(f"`(` and a margin, as in {word}(0.02)")
        self._place += 1
        token, margin = self._token, self._number()
        if margin <= 0:
            self._refuse_token(token, "a margin above 0")
        if self._token.text != ")":
            self._refuse("`)`")
        self._place += 1
        is_shown: Rule = Comparison(low, ">", -margin)
        if word == EQUIVALENT:
            is_shown = Junction((is_shown, Comparison(high, "<", margin)), is_all=True)
        return is_shown if self._is_required else Negation(is_shown)

    def _any(self, word: str, depth: int) -> AnyOf:
        inner = self._token.text
        if inner not in SCOPES:
            self._refuse(f"`criterion (...)` or `category (...)` after `{word}`")
        self._place += 1
        return AnyOf(inner, self._bracketed(inner, depth))

    def _bracketed(self, scope: str | None, depth: int) -> Rule:
        if self._token.text != "(":
            self._refuse("`(`")
        self._place += 1
        rule = self.disjunction(scope, depth + 1)
        if self._token.text != ")":
            self._refuse("`and`, `or` or `)`")
        self._place += 1
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
        self._place += 1
        return number

    def _sign(self) -> str:
        token = self._token
        if token.kind != "sign":
            self._refuse(f"one of {' '.join(OPERATORS)}")
        self._place += 1
        return token.text

    def _name(self, scope: str | None) -> Name:
        token = self._token
        if token.kind != "word" or token.text in ("and", "or"):
            self._refuse("a name, such as mean_diff or criterion.ID.p")
        self._place += 1
        head, _, rest = token.text.partition(".")
        if head in (CRITERION, CATEGORY):
            scope_id, _, figure = rest.rpartition(".")
            name = Name(head, scope_id.strip('"'), figure, token.position)
            if not name.scope_id:
                self._refuse_token(token, f"{head}.ID.FIGURE")
        else:
            name = Name(scope or OVERALL, None if scope else "", token.text, token.position)
        known = self._figures[name.scope]
        if name.figure not in known:
            if near := get_close_matches(token.text, MARGINS, 1, cutoff=0.7):
                self._refuse_token(token, f"`{near[0]}(0.02)` or a figure")
            self._refuse_token(token, _near(name.figure, known))
        return name

    @property
    def _token(self) -> Token:
        return self._tokens[self._place]

    def _take_word(self, word: str) -> bool:
        is_there = self._token == Token("word", word, self._token.position)
        self._place += is_there
        return is_there

    def _refuse(self, expected: str) -> NoReturn:
        self._refuse_token(self._token, expected)

    def _refuse_token(self, token: Token, expected: str) -> NoReturn:
        found = repr(token.text) if token.text else "the end"
        raise _rule_error(self._source, token.position, found, expected)


def _near(word: str, known: Collection[str]) -> str:
    """Expected words: the closest name first, then all of them if they are few."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    others = [name for name in known if name not in close]
    listed = f"one of {', '.join(others[:20])}" + (" ..." if len(others) > 20 else "")
    if not close:
        return listed if others else "none: nothing of that kind is compared"
    return f"{close[0]!r}" + (f" or {listed}" if others else "")
