"""Conditions on a row, which limit a criterion to some outputs: parsed once, evaluated on plain values.

condition  = conjunction ("or" conjunction)*
conjunction = unit ("and" unit)*
unit       = "not" unit | "(" condition ")" | FIELD predicate
predicate  = "exists" | SIGN value | "in" list | "not" "in" list
list       = "(" value ("," value)* ")"
value      = 'text' | "text" | number | true | false

A comparison with a missing field is false, also with `!=` and `not in`; `not (...)` is plain negation.
"""

import math
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, Discriminator, Field, Tag

from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.levels import Frozen

METADATA = "metadata"
NUMBERS = ("sample_index",)
LISTS = ("context",)  # fields with lists, allowed only with `exists`
TEXTS = ("model", "checkpoint", "case_id", "cluster", "prompt", "output", "reference")
ROW_FIELDS = (*TEXTS, *NUMBERS, *LISTS)
MOST_CHARACTERS = 2_000
MOST_DEPTH = 50
MOST_SHOWN = 40
LARGEST_EXACT = 2**53  # each whole number up to this is a float
# Prefix of the reason of a verdict if the criterion does not apply to the output; also in int_conditional_gaps.sql.
UNMET = "not_applicable: condition not met, "
_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = ("and", "or", "not", "in", "exists", "true", "false")
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    |(?P<sign><=|>=|==|!=|<|>|=)
    |(?P<bracket>[(),\[\]])
    |(?P<word>[A-Za-z_][\w-]*(?:\.(?:[\w-]+|"[^"]*"))*)
    )""",
    re.VERBOSE,
)
_PLAIN_KEY = re.compile(r"[\w-]+")

Value = str | float | bool


class Misfit(ValueError):
    """A row's value has another type than the condition's value."""

    def __init__(self, field: str, found: str, expected: str) -> None:
        super().__init__(field, found, expected)  # args == parameters, so it pickles
        self.field, self.found, self.expected = field, found, expected

    def __str__(self) -> str:
        return f"{self.field}: found {self.found}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class RowField:
    """Field of a row: a column, or a key of its metadata by its path."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(key if _PLAIN_KEY.fullmatch(key) else f'"{key}"' for key in self.path)

    def read(self, row: Mapping[str, Any]) -> Any:
        """Value in a row whose metadata are a mapping; None if it is missing."""
        value: Any = row
        for key in self.path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether a field has a value; an empty list has none."""

    field: RowField

    def __str__(self) -> str:
        return f"{self.field} exists"

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row meets the condition."""
        value = self.field.read(row)
        return value is not None and not (isinstance(value, list | tuple) and not value)

    def fields(self) -> Iterator[RowField]:
        """Fields that the condition reads, in order."""
        yield self.field


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparison of a field with a value."""

    field: RowField
    sign: str
    value: Value

    def __str__(self) -> str:
        return f"{self.field} {self.sign} {_literal(self.value)}"

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row meets the condition. Raises `Misfit`."""
        value = self.field.read(row)
        return value is not None and bool(_OPERATORS[self.sign](_fitting(self.field, value, self.value), self.value))

    def fields(self) -> Iterator[RowField]:
        """Fields that the condition reads, in order."""
        yield self.field


@dataclass(frozen=True, slots=True)
class Listed:
    """Whether a field's value is, or is not, in a list of values of one type."""

    field: RowField
    values: tuple[Value, ...]
    is_negated: bool

    def __str__(self) -> str:
        values = ", ".join(map(_literal, self.values))
        return f"{self.field} {'not in' if self.is_negated else 'in'} ({values})"

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row meets the condition. Raises `Misfit`."""
        value = self.field.read(row)
        return value is not None and (_fitting(self.field, value, self.values[0]) in self.values) != self.is_negated

    def fields(self) -> Iterator[RowField]:
        """Fields that the condition reads, in order."""
        yield self.field


@dataclass(frozen=True, slots=True)
class Negated:
    """Negation of a condition."""

    condition: "Condition"

    def __str__(self) -> str:
        inner = self.condition
        return f"not ({inner})" if isinstance(inner, Joined) else f"not {inner}"

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row meets the condition. Raises `Misfit`."""
        return not self.condition.holds(row)

    def fields(self) -> Iterator[RowField]:
        """Fields that the condition reads, in order."""
        yield from self.condition.fields()


@dataclass(frozen=True, slots=True)
class Joined:
    """Conjunction or disjunction of conditions; later conditions are evaluated only if earlier ones do not decide."""

    conditions: tuple["Condition", ...]
    is_all: bool

    def __str__(self) -> str:
        word = " and " if self.is_all else " or "
        return word.join(f"({inner})" if isinstance(inner, Joined) else str(inner) for inner in self.conditions)

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row meets the condition. Raises `Misfit`."""
        outcomes = (condition.holds(row) for condition in self.conditions)
        return all(outcomes) if self.is_all else any(outcomes)

    def fields(self) -> Iterator[RowField]:
        """Fields that the condition reads, in order."""
        for condition in self.conditions:
            yield from condition.fields()


Condition = Exists | Compared | Listed | Negated | Joined


@lru_cache(maxsize=1_000)
def parse_condition(text: str) -> Condition:
    """Parse a condition. Raises `ModelFault` with position, found text and expected text."""
    if len(text) > MOST_CHARACTERS:
        raise _fault(MOST_CHARACTERS, f"{len(text):,} characters", f"at most {MOST_CHARACTERS:,}")
    parser = _Parser(list(_tokens(text)))
    condition = parser.disjunction(0)
    parser.expect_end()
    return condition


def describe_values(condition: Condition, row: Mapping[str, Any]) -> str:
    """Values of the condition's fields in a row, for the reason why a criterion does not apply to it."""
    fields = dict.fromkeys(condition.fields())
    return ", ".join(f"{field} is {_shown(field.read(row))}" for field in fields)


def unmet_words(reason: str | None) -> str | None:
    """Clause on why a criterion does not apply, from a verdict's reason; None for any other reason."""
    return reason.removeprefix(UNMET) if reason is not None and reason.startswith(UNMET) else None


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    text = " ".join(str(value).split())
    text = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
    if isinstance(value, bool):
        return str(value).lower()
    return text if isinstance(value, int | float) else f"'{text}'"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "a text" if isinstance(value, str) else "a list or mapping"


def _fitting(field: RowField, value: Any, literal: Value) -> Any:
    """The row's value. Raises `Misfit` if it has another type than the condition's."""
    if _kind(value) != _kind(literal):
        raise Misfit(str(field), f"{_shown(value)}, {_kind(value)}", f"{_kind(literal)}, as {_literal(literal)}")
    return value


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


@dataclass(frozen=True, slots=True)
class _Token:
    """position: from 1. kind: text, number, sign, bracket, word or end."""

    kind: str
    text: str
    position: int


def _fault(position: int, found: str, expected: str) -> ModelFault:
    return ModelFault("wrong-value", f"at character {position}: found {found}, expected {expected}")


def _tokens(text: str) -> Iterator[_Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise _fault(start + 1, repr(text[start:].split(maxsplit=1)[0][:MOST_SHOWN]), "a field, a value or a sign")
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind) + 1)
        position = match.end()
    yield _Token("end", "", end + 1)


class _Parser:
    """Recursive-descent parser: a method for each line of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._position = tokens, 0

    def disjunction(self, depth: int) -> Condition:
        """Parse conjunctions separated by `or`."""
        conditions = [self._conjunction(depth)]
        while self._take("or"):
            conditions.append(self._conjunction(depth))
        return conditions[0] if len(conditions) == 1 else Joined(tuple(conditions), is_all=False)

    def expect_end(self) -> None:
        """Refuse anything after a complete condition."""
        if self._token.kind != "end":
            self._refuse("`and`, `or` or the end")

    def _conjunction(self, depth: int) -> Condition:
        conditions = [self._unit(depth)]
        while self._take("and"):
            conditions.append(self._unit(depth))
        return conditions[0] if len(conditions) == 1 else Joined(tuple(conditions), is_all=True)

    def _unit(self, depth: int) -> Condition:
        if depth > MOST_DEPTH:
            self._refuse(f"at most {MOST_DEPTH} brackets and `not` within each other")
        if self._take("not"):
            return Negated(self._unit(depth + 1))
        if self._take("("):
            condition = self.disjunction(depth + 1)
            self._expect(")", "`and`, `or` or `)`")
            return condition
        return self._predicate(self._field())

    def _field(self) -> RowField:
        token = self._token
        if token.kind != "word" or token.text in _WORDS:
            self._refuse("a field of the row, such as metadata.kind or model")
        path = tuple(quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([^."]+)', token.text))
        is_known = len(path) > 1 if path[0] == METADATA else path[0] in ROW_FIELDS and len(path) == 1
        if not is_known:
            near = get_close_matches(token.text, ROW_FIELDS, 1, cutoff=0.6)
            self._refuse(near[0] if near else f"metadata.KEY or one of {', '.join(ROW_FIELDS)}")
        self._position += 1
        return RowField(path)

    def _predicate(self, field: RowField) -> Condition:
        if self._take("exists"):
            return Exists(field)
        if field.path[0] in LISTS:
            self._refuse(f"`exists`: {field} is a list")
        if self._take("in"):
            return Listed(field, self._values(field), is_negated=False)
        if self._take("not"):
            self._expect("in", "`in`")
            return Listed(field, self._values(field), is_negated=True)
        if self._token.kind != "sign":
            self._refuse(f"one of {' '.join(_OPERATORS)}, `in`, `not in` or `exists`")
        sign = {"==": "="}.get(self._token.text, self._token.text)
        self._position += 1
        value = self._value(field)
        if isinstance(value, bool) and sign not in ("=", "!="):
            self._position -= 1
            self._refuse(f"a number or a text after {sign}")
        return Compared(field, sign, value)

    def _values(self, field: RowField) -> tuple[Value, ...]:
        close = {"(": ")", "[": "]"}.get(self._token.text)
        if close is None:
            self._refuse("`(` and values, as in ('a', 'b')")
        self._position += 1
        values = [self._value(field)]
        while self._take(","):
            if _kind(values[0]) != _kind(self._peek_value()):
                self._refuse(f"{_kind(values[0])}, as the first value")
            values.append(self._value(field))
        self._expect(close, f"`,` or `{close}`")
        return tuple(values)

    def _value(self, field: RowField) -> Value:
        value = self._peek_value()
        expected = "a number" if field.path[0] in NUMBERS else "a text" if field.path[0] in TEXTS else _kind(value)
        if _kind(value) != expected:
            self._refuse(f"{expected}, as {field} is")
        self._position += 1
        return value

    def _peek_value(self) -> Value:
        token = self._token
        if token.kind == "text":
            quote = token.text[0]
            return token.text[1:-1].replace(quote * 2, quote)
        if token.kind == "word" and token.text in ("true", "false"):
            return token.text == "true"
        if token.kind != "number":
            self._refuse("a text in quotes, a number, true or false")
        if token.text.lstrip("+-").isdecimal():
            return int(token.text)
        number = float(token.text)
        if not math.isfinite(number):
            self._refuse("a number of at most 1.7e308")
        return int(number) if number.is_integer() and abs(number) < LARGEST_EXACT else number

    @property
    def _token(self) -> _Token:
        return self._tokens[self._position]

    def _take(self, text: str) -> bool:
        is_there = self._token.kind in ("word", "bracket") and self._token.text == text
        self._position += is_there
        return is_there

    def _expect(self, text: str, expected: str) -> None:
        if not self._take(text):
            self._refuse(expected)

    def _refuse(self, expected: str) -> NoReturn:
        token = self._token
        raise _fault(token.position, repr(token.text[:MOST_SHOWN]) if token.text else "the end", expected)


class CheckCondition(Frozen):
    """a check of a column: the criterion applies where it passes"""

    check: str
    """name of the check"""
    settings: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    """settings of the check: [checks](checks.md); without files"""
    field: Annotated[str, Field(pattern=r"^(prompt|output|reference)$")] = "prompt"
    """column whose text is checked: `prompt`, the default, `output` or `reference`"""

    def __str__(self) -> str:
        return f"the {self.field} passes {self.check}"

    @property
    def refusal(self) -> str:
        """Reason of verdicts on outputs that the criterion does not apply to."""
        return f"the {self.field} does not pass {self.check}"


def _canonical(text: str) -> str:
    """Canonical text of a condition, independent of spaces and brackets. Raises `ModelFault`."""
    canonical = str(parse_condition(text))
    parse_condition(canonical)
    return canonical


def _tag(value: Any) -> str:
    return "check" if isinstance(value, dict | CheckCondition) else "condition"


Applies = Annotated[
    Annotated[str, AfterValidator(_canonical), Tag("condition")] | Annotated[CheckCondition, Tag("check")],
    Discriminator(_tag),
]
