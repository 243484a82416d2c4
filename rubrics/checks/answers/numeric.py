"""Check of a number against the accepted one, in exact arithmetic."""

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, islice
from typing import Annotated, Literal, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.checks.answers.accepted import MOST_CHARACTERS, AcceptedSettings, accepted_answers
from gradebook.rubrics.checks.answers.numerals import (
    MOST_DIGITS,
    MOST_EXPONENT,
    DecimalMark,
    Numeral,
    TooManyNumbers,
    boxed_text,
    number_format,
)

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

    shown: str
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
    read = [_read_accepted(text, settings) for text in accepted.texts.to_pylist()]
    return gather_rows(
        _judge_row(output, [read[place] for place in places], settings, reason)
        for output, places, reason in zip(outputs, accepted.places_by_row(), accepted.reasons.to_pylist(), strict=True)
    )


def _read_accepted(text: str, settings: NumericSettings) -> AcceptedNumber | str:
    """Accepted number, or the reason why there is none."""
    numeral = number_format(settings.decimal).find_last(_scope(text))
    if numeral is None:
        return f"no number in the reference {cut_text(text, EXCERPT_CHARACTERS)!r}"
    value = _value(numeral, settings)
    return f"reference {TOO_LONG}" if value is None else AcceptedNumber(_shown(numeral), value)


def _judge_row(
    output: str, read: Sequence[AcceptedNumber | str], settings: NumericSettings, reason: str | None
) -> RowFinding:
    """Judge one row. read: accepted numbers, or reasons why an answer is not one. reason: why there are no answers."""
    accepted = [number for number in read if isinstance(number, AcceptedNumber)]
    if not accepted:
        faults = [fault for fault in read if isinstance(fault, str)]
        return RowFinding(None, reason=faults[0] if faults else reason)
    try:
        numerals = _taken(_scope(output), settings)
    except TooManyNumbers as error:
        return RowFinding(None, reason=f"too many numbers: {error}")
    if settings.take != "only" or len(numerals) == 1:
        values = [_value(numeral, settings) for numeral in numerals]
        if _is_any_near([value for value in values if value is not None], accepted, settings):
            return RowFinding(True)
        if None in values:
            return RowFinding(None, reason=TOO_LONG)
    return RowFinding(False, f"found {_found_words(numerals, settings)}, expected {_expected_words(accepted)}")


def _scope(text: str) -> str:
    boxed = boxed_text(text)
    return text if boxed is None else boxed


def _taken(text: str, settings: NumericSettings) -> list[Numeral]:
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


def _shown(numeral: Numeral) -> str:
    return cut_text(numeral.shown.strip(), EXCERPT_CHARACTERS)


def _found_words(numerals: Sequence[Numeral], settings: NumericSettings) -> str:
    if len(numerals) < 2:
        return _shown(numerals[0]) if numerals else "no number"
    return f"{len(numerals)} different numbers" if settings.take == "any" else "more than one number"


def _expected_words(accepted: Sequence[AcceptedNumber]) -> str:
    others = len(accepted) - 1
    return accepted[0].shown + (f" or {others} other{'s' * (others > 1)}" if others else "")
