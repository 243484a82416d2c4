"""Numbers in prose: their location and their possible meanings, as exact decimal texts.

1,234 is 1234 or, with a decimal comma, 1.234; .5 is 0.5; ٣ is 3; 5 million is 5000000. Signs, currencies, units and %
are not part of a number.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

MOST_NUMBERS = 100_000  # distinct ones, of an output or of its sources
MOST_DIGITS = 300  # a longer number is compared literally
POWERS = MappingProxyType(
    {"k": 3, "thousand": 3, "m": 6, "mn": 6, "million": 6, "bn": 9, "b": 9, "billion": 9, "trillion": 12}
)
SPACES = " \u00a0\u2009\u202f"
# Digits with single points, commas, apostrophes or thin spaces inside. Possessive, so that it never backtracks.
NUMBER = re.compile(
    r"(?<![A-Za-z_\d])(?:\d++(?:[.,'’_\u066b\u066c\u00a0\u2009\u202f]\d++)*+"
    r"(?:(?: \d{3})++(?!\d)(?:[.,]\d++)?+)?+|(?<!\.)\.\d++)"
    r"(?:[ \u00a0\u202f-]?(?i:thousand|million|billion|trillion|mn|bn|[kmb])(?![A-Za-z_\d]))?+"
)
DIGITS = re.compile(r"\d+")
SCALE = re.compile(r"[A-Za-z]+\Z")
GROUPED = re.compile(r"\d{1,3}([,.'_ ])\d{3}(?:\1\d{3})*|\d{1,2}(?:,\d{2})+,\d{3}")  # the second form is Indian
# Only before a text: "42." alone is an answer.
LIST_MARKER = re.compile(
    r"(?m)^[ \t>#*+_-]*+(?:\(?\d{1,3}(?:\.\d{1,3})*[.)]|(?i:step|part|option|question|example) \d{1,3}[.:)])"
    r"(?=[ \t]++[^\s]|[*_])"
)
MONTHS = MappingProxyType(
    {
        name: str(number)
        for number, names in enumerate(
            (
                "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
                "september sep sept", "october oct", "november nov", "december dec",
            ),
            start=1,
        )
        for name in names.split()
    }
)  # fmt: skip
MONTH_NAME = rf"({'|'.join(sorted(MONTHS, key=len, reverse=True))})"
# Only next to a number: "you may" is not the fifth month.
MONTH = re.compile(rf"\d(?:st|nd|rd|th)?(?: of)?[ .,/-]{{1,2}}{MONTH_NAME}\b|\b{MONTH_NAME}[ .,/-]{{1,2}}\d")


class TooManyNumbers(Exception):
    """An output or its sources have too many numbers to compare; the message gives the count."""


def numbers_in(text: str) -> list[str]:
    """Distinct numbers of a text as written, in order, without list markers.

    Raises `TooManyNumbers`.
    """
    numbers = list(dict.fromkeys(NUMBER.findall(LIST_MARKER.sub(" ", text))))
    if len(numbers) > MOST_NUMBERS:
        raise TooManyNumbers(f"found {len(numbers)} different ones, at most {MOST_NUMBERS}")
    return numbers


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """Possible meanings of a source's numbers.

    values: complete, so 5000000 for "5 million". bare: of numbers with a scale, without it, so 5. plain: of numbers
    without a scale.
    """

    values: set[str]
    bare: set[str]
    plain: set[str]

    def contains(self, written: str) -> bool:
        """Whether the source has one of a number's meanings, or each of its parts if it may be several numbers.

        If only one side has a scale, the other may have it in a table header: "5 million" and 5.
        """
        meant = readings(written)
        unscaled = self.plain if meant.has_scale else self.bare
        parts = _parts(written)
        is_whole = not (self.values.isdisjoint(meant.values) and unscaled.isdisjoint(meant.bare))
        return is_whole or (bool(parts) and self.values.issuperset(parts))


def read_source_numbers(texts: Iterable[str]) -> SourceNumbers:
    """Collect all possible meanings of the numbers in the texts. An English month next to a number adds its own number.

    Raises `TooManyNumbers`.
    """
    values: set[str] = set()
    bare: set[str] = set()
    plain: set[str] = set()
    different = set(texts)
    numbers = set(chain.from_iterable(map(NUMBER.findall, different)))
    if len(numbers) > MOST_NUMBERS:
        raise TooManyNumbers(f"found {len(numbers)} different ones, at most {MOST_NUMBERS}")
    for written in numbers:
        meant, parts = readings(written), _parts(written)
        values.update(meant.values, parts)
        (bare if meant.has_scale else plain).update(meant.bare, parts)
    for text in different:
        values.update(MONTHS[before or after] for before, after in MONTH.findall(text.lower()))
    return SourceNumbers(values, bare, plain)


class Readings(NamedTuple):
    """Possible meanings of a number, as plain decimal texts without superfluous zeros. bare: without its scale."""

    values: frozenset[str]
    bare: frozenset[str]
    has_scale: bool = False


def readings(written: str) -> Readings:
    """Possible meanings of a number: "1,234" is 1234 or 1.234."""
    if written.isascii() and written.isdigit():
        digits = frozenset({written.lstrip("0") or "0"})
        return Readings(digits, digits)
    return Readings(frozenset({written}), frozenset({written})) if len(written) > MOST_DIGITS else _readings(written)


@lru_cache(maxsize=4096)
def _readings(written: str) -> Readings:
    text = _ascii_digits(written)
    scale = SCALE.search(text)
    bare = frozenset(map(_plain_decimal, _points(text[: scale.start()].rstrip(" -") if scale else text)))
    if scale is None:
        return Readings(bare, bare)
    return Readings(frozenset(_plain_decimal(value, POWERS[scale[0].lower()]) for value in bare), bare, True)


def _points(plain: str) -> set[str]:
    """Spellings of a number with a point before the fraction and no other marks, or itself if there are none."""
    if _is_decimal(plain):
        # a bit more than one, or a grouped thousand
        return {plain, plain.replace(".", "")} if GROUPED.fullmatch(plain) else {plain}
    if grouped := GROUPED.fullmatch(plain):
        whole = DIGITS.findall(plain)
        is_decimal = grouped[1] == "," and len(whole) == 2
        return {"".join(whole), ".".join(whole)} if is_decimal else {"".join(whole)}
    head, mark, fraction = plain[: _last_mark(plain)], plain[_last_mark(plain)], plain[_last_mark(plain) + 1 :]
    if mark in ",." and fraction.isdigit() and (head.isdigit() or GROUPED.fullmatch(head)) and mark not in head:
        return {"".join(DIGITS.findall(head)) + "." + fraction}
    return {plain}


def _last_mark(plain: str) -> int:
    return max(place for place, character in enumerate(plain) if not character.isdigit())


def _plain_decimal(spelling: str, power: int = 0) -> str:
    """Normalise 07.50 to 7.5 and multiply by ten to the power; other spellings are returned unchanged."""
    whole, _, fraction = spelling.partition(".")
    if not (whole + fraction).isdigit():
        return spelling
    whole, fraction = whole + fraction[:power].ljust(power, "0"), fraction[power:].rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{fraction}" if fraction else whole


def _parts(written: str) -> list[str]:
    """Parts of a text that may be several numbers: "12 345", "1,2,3", "3.5.2025"; empty for a single number."""
    if (
        written.isdigit()
        or len(written) > MOST_DIGITS
        or SCALE.search(written)
        or (" " not in written and all(_is_decimal(value) for value in readings(written).values))
    ):
        return []
    return [digits.lstrip("0") or "0" for digits in DIGITS.findall(_ascii_digits(written))]


def _is_decimal(value: str) -> bool:
    return value.replace(".", "", 1).isdigit()


def _ascii_digits(written: str) -> str:
    """Number with digits of all scripts as 0-9, Arabic marks as point and comma, and thin spaces as spaces."""
    if written.isascii():
        return written
    return "".join(_ascii(character) for character in written)


def _ascii(character: str) -> str:
    if character in SPACES:
        return " "
    value = unicodedata.decimal(character, None)
    return {"\u066b": ".", "\u066c": ",", "’": "'"}.get(character, character) if value is None else str(value)
