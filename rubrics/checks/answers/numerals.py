"""Exact parsing of the numbers in a text: 1,234.5, -3, 3/4, 50%, $1,200, 1e5, 2 × 10^3, LaTeX fractions."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple

DecimalMark = Literal[".", ","]
MOST_DIGITS = 1000
MOST_EXPONENT = 1000
MOST_WRITTEN = 150_000  # numbers of a text, if all of them count
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
GROUP_MARKS = {".": f",'’{THIN_SPACES}", ",": f". '’{THIN_SPACES}"}  # by the decimal mark
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

    shown: str
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
        self._apart = _apart_pattern(decimal)

    def find(self, text: str) -> Iterator[Numeral]:
        """Yield the numbers of a text, in order, in linear time."""
        return chain.from_iterable(map(self._read_match, self._matches(text)))

    def find_distinct(self, text: str) -> list[Numeral]:
        """Distinct numbers of a text, by notation. Raises `TooManyNumbers`."""
        written: set[str] = set()
        found: dict[Numeral, None] = {}
        for count, match in enumerate(self._matches(text)):
            if count == MOST_WRITTEN:
                raise TooManyNumbers(f"found more than {MOST_WRITTEN}")
            if match[0] in written:
                continue
            written.add(match[0])
            found.update(dict.fromkeys(self._read_match(match)))
            if len(found) > MOST_NUMBERS:
                raise TooManyNumbers(f"found more than {MOST_NUMBERS} different ones")
        return list(found)

    def find_last(self, text: str) -> Numeral | None:
        """Last number of a text. The last characters are searched first, as it is nearly always there."""
        for start in self._starts(text):
            latest = {match[0]: match for match in self._matches(text, start)}  # a hostile text repeats a few of them
            from_the_end = sorted(latest.values(), key=re.Match.start, reverse=True)
            found = next(filter(None, map(self._read_match, from_the_end)), None)
            if found:
                return found[-1]
        return None

    def _starts(self, text: str) -> Iterator[int]:
        """Places to read from, the shortest rest first; each gives the same numbers as the whole text."""
        for size in TAILS:
            apart = self._apart.search(text, len(text) - size) if size < len(text) else None
            if apart:
                yield apart.end()
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
        found = [Numeral(piece, piece) for piece in dict.fromkeys(firsts)] + [
            _numeral(match, last, last)._replace(is_negative=False)
        ]
        return [numeral for numeral in found if self._plain.fullmatch(numeral.digits)]


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


def _apart_pattern(decimal: DecimalMark) -> re.Pattern[str]:
    """Pattern that ends where no match of the numeral pattern reaches across, so that reading may begin there.

    Such places are after a line end, within 41 characters without a digit, and after a digit with a character that
    cannot follow it in a number. The digit is required because an exponent's braces may contain any non-digits.
    """
    groups_end = r"|[ ](?=\d)" if decimal == "." else ""  # otherwise a space may separate groups
    return re.compile(
        rf"\n|\D{{20}}(?=\D{{21}})|\d(?:[a-df-wyzA-DF-Z()\[\];=]|[.,](?=\s)|[ ](?=[a-wyzA-Z])|[{SIGNS}](?=[{SIGNS}])"
        rf"{groups_end})"
    )


def _numeral(match: re.Match[str], digits: str, shown: str) -> Numeral:
    return Numeral(
        shown,
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
