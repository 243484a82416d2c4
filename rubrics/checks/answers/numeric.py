"""Check of a number against the accepted one, in exact arithmetic.

Numbers are parsed exactly: 1,234.5, -3, 3/4, 50%, $1,200, 1e5, 2 × 10^3, LaTeX fractions.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, chain, islice
from typing import Annotated, Literal, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, RowFinding, gather_rows, register_check
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text, text_column
from gradebook.rubrics.checks.answers.accepted import MOST_CHARACTERS, AcceptedSettings, accepted_answers

DecimalMark = Literal[".", ","]
MOST_DIGITS = 1000
MOST_EXPONENT = 1000
MOST_WRITTEN = 150_000  # numbers of a text if all of them count, repeated ones too
MOST_NUMBERS = 50_000  # different numbers
TAILS = (500, 10_000)  # characters at the end of a text
# Digits with at most 40 other characters between them: long stretches without a digit are skipped fast. A number begins
# and ends less than REACH characters from its digits.
CLUSTER = re.compile(r"\d++(?:\D{1,40}+\d++)*+")
REACH = 16
BOXED = "\\boxed{"
MINUS = "\u2212\u2013-"  # the hyphen last, for use in a character class
SIGNS = "+" + MINUS
MONEY = "$€£¥₹₩₽"
THIN_SPACES = "\u00a0\u2007\u2009\u202f"
GROUP_MARKS = {".": f",'’{THIN_SPACES}", ",": f". '’{THIN_SPACES}"}  # decimal mark -> marks between groups
# Contexts in which digits do not start a number: the rest of a name or number (x2, 5.7), an exponent or an index (x^2,
# x^{-2}, a_{1}). An underscore starts an index after a letter, a digit or a bracket; elsewhere it is Markdown (__42__).
NOT_WITHIN = (
    r"(?<![A-Za-z^\d])(?<![^\W_]_)(?<![^\W_]__)(?<![)\]}]_)(?<![\^_]\{)(?<!\d[.,])"
    rf"(?<!\^[{SIGNS}])(?<!\^\{{[{SIGNS}])"
)


class TooManyNumbers(Exception):
    """The text has too many numbers to read in time; the message gives the limit."""


class Numeral(NamedTuple):
    """Number as written in a text: its digits with their marks, and the parts around them."""

    text: str
    digits: str
    is_negative: bool = False
    exponent: str = ""
    power: str = ""
    divisor: str = ""
    is_percent: bool = False


class NumberFormat:
    """Notation of numbers: `.` or `,` before the decimals. The other mark separates groups."""

    def __init__(self, decimal: DecimalMark) -> None:
        groups = GROUP_MARKS[decimal]
        self._decimal = decimal
        self._groups = re.compile(f"[{groups}]")
        self._plain = re.compile(rf"\d*+(?:{re.escape(decimal)}\d++)?")
        self._grouped = re.compile(
            rf"\d{{1,3}}(?P<mark>[{groups}])\d{{3}}(?:(?P=mark)\d{{3}})*+(?:{re.escape(decimal)}\d++)?"
        )
        self._pattern = _numeral_pattern(decimal, groups)
        self._boundary = _boundary_pattern(decimal)

    def find(self, text: str) -> Iterator[Numeral]:
        """Yield the numbers of a text, in order, in linear time."""
        return chain.from_iterable(map(self._read_match, self._matches(text)))

    def find_distinct(self, text: str) -> list[Numeral]:
        """Distinct numbers of a text, by notation. Raises `TooManyNumbers`."""
        seen: set[str] = set()
        numerals: dict[Numeral, None] = {}
        for count, match in enumerate(self._matches(text)):
            if count == MOST_WRITTEN:
                raise TooManyNumbers(f"found more than {MOST_WRITTEN}")
            if match[0] in seen:
                continue
            seen.add(match[0])
            numerals.update(dict.fromkeys(self._read_match(match)))
            if len(numerals) > MOST_NUMBERS:
                raise TooManyNumbers(f"found more than {MOST_NUMBERS} different ones")
        return list(numerals)

    def find_last(self, text: str) -> Numeral | None:
        """Last number of a text. The last characters are searched first, as it is nearly always there."""
        for start in self._starts(text):
            latest = {
                match[0]: match for match in self._matches(text, start)
            }  # a hostile text may repeat a few numbers very often
            from_the_end = sorted(latest.values(), key=re.Match.start, reverse=True)
            numerals = next(filter(None, map(self._read_match, from_the_end)), None)
            if numerals:
                return numerals[-1]
        return None

    def _starts(self, text: str) -> Iterator[int]:
        """Positions to search from, last position first; each finds the last numbers of the text."""
        for size in TAILS:
            boundary = self._boundary.search(text, len(text) - size) if size < len(text) else None
            if boundary:
                yield boundary.end()
        yield 0

    def value(self, numeral: Numeral) -> Fraction | None:
        """Value of a number; None if it has too many digits or too large an exponent."""
        whole, _, decimals = self._groups.sub("", numeral.digits).partition(self._decimal)
        exponent, power = (_small_number(text) for text in (numeral.exponent, numeral.power or "1"))
        digit_count = len(whole) + len(decimals)
        if exponent is None or power is None or max(digit_count * abs(power), len(numeral.divisor)) > MOST_DIGITS:
            return None
        value = Fraction(int(whole + decimals), 10 ** len(decimals)) if decimals else Fraction(int(whole))
        if power != 1 and (value or power > 0):
            value = value**power
        if exponent or numeral.divisor:
            value = value * Fraction(10) ** exponent / int(numeral.divisor or 1)
        return -value if numeral.is_negative else value

    def _matches(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
        for cluster in CLUSTER.finditer(text, start):
            yield from self._pattern.finditer(text, max(cluster.start() - REACH, start), cluster.end() + REACH)

    def _read_match(self, match: re.Match[str]) -> list[Numeral]:
        """Numbers of one match: several for a list without spaces, none for a date, version, root or division by 0.

        All but the last of a list are listed once: a hostile list may repeat them half a million times.
        """
        divisor = match["divisor"] or match["under"]
        if match["broken_power"] or (divisor and not any(map(int, divisor))):
            return []
        if match["digits"] is None:
            return [] if match["over"] is None else [_numeral(match, match["over"], match[0])]
        digits = _plain_marks(match["digits"])
        if self._grouped.fullmatch(digits) or self._plain.fullmatch(digits):
            return [_numeral(match, digits, match[0])]
        *firsts, last = self._groups.split(digits)
        numerals = [Numeral(piece, piece) for piece in dict.fromkeys(firsts)] + [
            _numeral(match, last, last)._replace(is_negative=False)
        ]
        return [numeral for numeral in numerals if self._plain.fullmatch(numeral.digits)]


@cache
def number_format(decimal: DecimalMark) -> NumberFormat:
    """Cached format with this decimal mark."""
    return NumberFormat(decimal)


def boxed_text(text: str) -> str | None:
    r"""Content of the last `\boxed{...}` of a text, up to the end if it is open; None if there is none."""
    start = text.rfind(BOXED)
    if start < 0:
        return None
    start += len(BOXED)
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return text[start:]


def _numeral_pattern(decimal: DecimalMark, groups: str) -> re.Pattern[str]:
    """Pattern of a number, linear in time: repetitions are possessive, and every part after the first digits is
    optional.
    """
    between = rf"(?:[{groups}{decimal}]|,?\\!|\\,|\{{,\}})"
    scale, power = (
        rf"(?:(?P<{name}>[{SIGNS}]?\d++)(?!{re.escape(decimal)}\d)|\{{(?P<{name}_in_braces>[{SIGNS}]?\d++)\}})"
        for name in ("scale", "power")
    )
    broken = rf"(?:[{SIGNS}]?\d++{re.escape(decimal)}\d|\{{[^{{}}\d\n]{{0,20}}+\d)"
    times = r" ?(?:[×x*]|\\times|\\cdot) ?10 ?\^"
    return re.compile(
        rf"(?P<sign>(?<![\w)\]}}%.°{SIGNS}])[{SIGNS}])?(?:\\?[{MONEY}](?P<inner>[{SIGNS}])?)?"
        rf"(?:{NOT_WITHIN}\d++(?P<joint>[-/:])\d++(?:(?P=joint)\d++)++"
        rf"|\\[dt]?frac\{{(?P<over>\d{{1,{MOST_DIGITS}}})\}}\{{(?P<under>\d{{1,{MOST_DIGITS}}})\}}"
        rf"|{NOT_WITHIN}(?P<digits>\d++(?:{between}\d++)*+|(?<![\w.,]){re.escape(decimal)}\d++)"
        rf"(?:[eE](?P<exponent>[{SIGNS}]?\d++)|{times}{scale}|\^{power}|\^(?P<broken_power>{broken}))?+"
        rf"(?:/(?P<divisor>\d++)(?![{groups}{decimal}]?\d))?+)"
        rf"(?P<percent>[ {THIN_SPACES}]?\\?%)?"
    )


def _boundary_pattern(decimal: DecimalMark) -> re.Pattern[str]:
    """Pattern whose end is never inside a number, so that a search may begin there.

    Such places are after a line end, within 41 characters without a digit, and after a digit with a character that
    cannot follow it in a number. The digit is required because an exponent's braces may contain any non-digits.
    """
    groups_end = r"|[ ](?=\d)" if decimal == "." else ""  # otherwise a space may separate groups
    return re.compile(
        rf"\n|\D{{20}}(?=\D{{21}})|\d(?:[a-df-wyzA-DF-Z()\[\];=]|[.,](?=\s)|[ ](?=[a-wyzA-Z])|[{SIGNS}](?=[{SIGNS}])"
        rf"{groups_end})"
    )


def _numeral(match: re.Match[str], digits: str, text: str) -> Numeral:
    return Numeral(
        text,
        digits,
        (match["sign"] or match["inner"] or "+") in MINUS,
        match["exponent"] or match["scale"] or match["scale_in_braces"] or "",
        match["power"] or match["power_in_braces"] or "",
        match["divisor"] or match["under"] or "",
        match["percent"] is not None,
    )


def _plain_marks(digits: str) -> str:
    """Replace LaTeX's marks between digits with plain ones."""
    if "\\" not in digits and "{" not in digits:
        return digits
    return digits.replace("{,}", ",").replace(",\\!", ",").replace("\\,", "\u2009").replace("\\!", "\u2009")


def _small_number(text: str) -> int | None:
    """Exponent as an integer; None if it is out of bounds."""
    digits = text.lstrip(SIGNS).lstrip("0")
    if len(digits) > 4 or int(digits or 0) > MOST_EXPONENT:
        return None
    return -int(digits or 0) if text and text[0] in MINUS else int(digits or 0)


Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]
TOO_LONG = f"too long to read: found a number of more than {MOST_DIGITS} digits, or an exponent beyond {MOST_EXPONENT}"


class NumericSettings(AcceptedSettings):
    """The number that counts, its notation and the tolerance."""

    take: Literal["last", "first", "only", "any"] = "last"
    """the number of the output that counts; `only` requires exactly one"""
    tolerance: Tolerance = 0
    """maximum absolute difference from the accepted number"""
    relative_tolerance: Tolerance = 0
    """maximum difference as a share of the accepted number; the larger of both tolerances applies"""
    decimal: DecimalMark = "."
    """the decimal mark"""
    percent: Literal["ignore", "divide"] = "ignore"
    """whether the percent sign is ignored (50% is 50) or divides by a hundred (50% is 0.5)"""

    @model_validator(mode="after")
    def _expected_are_numbers(self) -> Self:
        for text in self.expected_texts:
            if not isinstance(_read_accepted(text, self), AcceptedNumber):
                raise ValueError(f"found {text!r} in expected, expected a number")
        return self


class AcceptedNumber(NamedTuple):
    """Accepted number, as written and as a value."""

    text: str
    value: Fraction


@register_check(
    "numeric_answer",
    NumericSettings,
    columns=("output", "reference"),
    cost="rows",
    examples=(
        Example("She pays 3 x $400 = $1,200.", True, others={"reference": "1200"}),
        Example("So it is 41.", False, others={"reference": "42"}),
        Example(r"About 0.66, or \boxed{\frac{2}{3}} in full.", True, {"expected": "0.667", "tolerance": 0.001}),
        Example("So it is 41.", None, others={"reference": "unknown"}),
    ),
)
def numeric_answer(shard: pa.Table, settings: NumericSettings) -> CheckVerdicts:
    r"""The number in the output is an accepted one, within the tolerance. An output without a number fails.

    If the output has a `\boxed{...}`, only the last one is read. Numbers are 42, 1,234.5 or 1'234.5 (with
    `decimal: ","` 1.234,5 or 1 234,5), -3, 3/4, `\frac{3}{4}`, $1,200, 50%, 1e5, 2 × 10^3 and 2^10, in the digits of
    any script. A hyphen or dash directly before a number is its sign, except after a word or a number. Digits within a
    name (x2), an exponent or an index (m^2), a date (3/4/2024), a version (2.1.0) or a root (2^0.5) are not numbers;
    "1,2,3" is three numbers. Number words, mixed fractions ("1 3/4" is 1 and 3/4) and "5 million" are not read as one
    number. In the reference, the last number or the boxed one counts. All arithmetic is exact. A row stays unscored
    if a number has more than 1000 digits or an exponent beyond 1000, if there are more than 50,000 different numbers
    or 150,000 in all with `take: any`, and if the reference has more than 100,000 characters.
    """
    outputs = text_column(shard, "output").to_pylist()
    accepted = accepted_answers(shard, settings, MOST_CHARACTERS)
    candidates = [_read_accepted(text, settings) for text in accepted.texts.to_pylist()]
    return gather_rows(
        _judge_row(output, [candidates[index] for index in indices], settings, reason)
        for output, indices, reason in zip(
            outputs, accepted.text_indices_by_row(), accepted.reasons.to_pylist(), strict=True
        )
    )


def _read_accepted(text: str, settings: NumericSettings) -> AcceptedNumber | str:
    """Accepted number, or the reason why there is none."""
    numeral = number_format(settings.decimal).find_last(_scope(text))
    if numeral is None:
        return f"no number in the reference {cut_text(text, EXCERPT_CHARACTERS)!r}"
    value = _value(numeral, settings)
    return f"reference {TOO_LONG}" if value is None else AcceptedNumber(_excerpt(numeral), value)


def _judge_row(
    output: str, candidates: Sequence[AcceptedNumber | str], settings: NumericSettings, reason: str | None
) -> RowFinding:
    """Judge one row.

    candidates: accepted numbers, or reasons why an answer is not one. reason: why there are no answers.
    """
    accepted = [number for number in candidates if isinstance(number, AcceptedNumber)]
    if not accepted:
        faults = [fault for fault in candidates if isinstance(fault, str)]
        return RowFinding(None, reason=faults[0] if faults else reason)
    try:
        numerals = _select_numerals(_scope(output), settings)
    except TooManyNumbers as error:
        return RowFinding(None, reason=f"too many numbers: {error}")
    if settings.take != "only" or len(numerals) == 1:
        values = [_value(numeral, settings) for numeral in numerals]
        if _is_any_near([value for value in values if value is not None], accepted, settings):
            return RowFinding(True)
        if None in values:
            return RowFinding(None, reason=TOO_LONG)
    return RowFinding(False, f"found {_describe_found(numerals, settings)}, expected {_describe_expected(accepted)}")


def _scope(text: str) -> str:
    boxed = boxed_text(text)
    return text if boxed is None else boxed


def _select_numerals(text: str, settings: NumericSettings) -> list[Numeral]:
    """Numbers that count: at most two for `only`, distinct ones for `any`."""
    number_style = number_format(settings.decimal)
    if settings.take == "last":
        last = number_style.find_last(text)
        return [] if last is None else [last]
    if settings.take == "any":
        return number_style.find_distinct(text)
    return list(islice(number_style.find(text), 1 if settings.take == "first" else 2))


def _value(numeral: Numeral, settings: NumericSettings) -> Fraction | None:
    value = number_format(settings.decimal).value(numeral)
    is_divided = numeral.is_percent and settings.percent == "divide"
    return value / 100 if value is not None and is_divided else value


def _is_any_near(values: Sequence[Fraction], accepted: Sequence[AcceptedNumber], settings: NumericSettings) -> bool:
    """Whether a value lies within the tolerance of an accepted one. By bisection, as there may be many of both."""
    if not {number.value for number in accepted}.isdisjoint(values):
        return True
    if not settings.tolerance and not settings.relative_tolerance:
        return False
    tolerance, relative = (Fraction(repr(share)) for share in (settings.tolerance, settings.relative_tolerance))
    reaches = [max(tolerance, relative * abs(number.value)) for number in accepted]
    spans = sorted(
        (number.value - reach, number.value + reach) for number, reach in zip(accepted, reaches, strict=True)
    )
    starts, stops = [start for start, _ in spans], list(accumulate((stop for _, stop in spans), max))
    begun_counts = (bisect_right(starts, value) for value in values)
    return any(count and value <= stops[count - 1] for value, count in zip(values, begun_counts, strict=True))


def _excerpt(numeral: Numeral) -> str:
    return cut_text(numeral.text.strip(), EXCERPT_CHARACTERS)


def _describe_found(numerals: Sequence[Numeral], settings: NumericSettings) -> str:
    if len(numerals) < 2:
        return _excerpt(numerals[0]) if numerals else "no number"
    return f"{len(numerals)} different numbers" if settings.take == "any" else "more than one number"


def _describe_expected(accepted: Sequence[AcceptedNumber]) -> str:
    other_count = len(accepted) - 1
    return accepted[0].text + (f" or {other_count} other{'s' * (other_count > 1)}" if other_count else "")
