"""Checks of the quotations and the numbers of an output against its sources.

Numbers are found in prose and compared by their possible meanings, as exact decimal texts: 1,234 is 1234 or, with a
decimal comma, 1.234; .5 is 0.5; ٣ is 3; 5 million is 5000000. Signs, currencies, units and % are not part of a number.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, RowFinding, register_check
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text, evidence_where, text_column
from gradebook.rubrics.check_kit.measures import Count
from gradebook.rubrics.check_kit.regexes import find_likely, place_findings, without_code
from gradebook.rubrics.checks.grounding.citations import STYLES, has_marks, replace_marks, split_at_marks
from gradebook.rubrics.checks.privacy import LETTERS

SourceName = Literal["context", "prompt", "reference"]
Sources = Annotated[tuple[SourceName, ...], Field(min_length=1)]
SOURCE_COLUMNS = ("output", "context", "prompt", "reference")


def has_sources(shard: pa.Table, names: Sequence[SourceName]) -> pa.BooleanArray:
    """Rows that have every source: (output,)."""
    return reduce(pc.and_, [text_column(shard, name).is_valid() for name in names])


def source_texts(shard: pa.Table, names: Sequence[SourceName], mask: pa.BooleanArray) -> list[list[str]]:
    """Texts of the sources of each row of the mask, in order. Every row of the mask has all sources."""
    columns = [text_column(shard, name).filter(mask).to_pylist() for name in names]
    return [[text for source in row for text in _passages(source)] for row in zip(*columns, strict=True)]


def _passages(source: str | list[str | None]) -> list[str]:
    return [source] if isinstance(source, str) else [passage or "" for passage in source]


def unjudged(has_all: pa.BooleanArray, names: Sequence[SourceName], is_passed: bool, evidence: str) -> CheckVerdicts:
    """Verdicts of rows with nothing to search; null with a reason if a source is missing. has_all: (output,)."""
    return CheckVerdicts(
        pc.if_else(has_all, is_passed, pa.scalar(None, pa.bool_())),
        evidence_where(has_all, evidence),
        evidence_where(pc.invert(has_all), f"no {' or no '.join(names)}"),
    )


QUOTE_MARK = '["“”„«»「『]'
# In scripts without spaces, each character counts as a word: Thai to Khmer, kana, Han.
UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{UNSPACED}]|[^\W_]++(?:['’-][^\W_]++)*+")
# A straight mark opens before a character and not after a word character, and closes the other way round. The inside
# never contains a mark of its own kind, so each text is read once.
QUOTATION = re.compile(
    rf'(?<![^\W_{UNSPACED}])"(?=\S)([^"]++)(?<=\S)"(?![^\W_{UNSPACED}])'
    r"|[“„]([^“”„]++)[“”]|«([^«»]++)»|»([^«»]++)«|「([^「」]++)」|『([^『』]++)』"
)
BLANK_LINE = re.compile(r"\n[ \t\r]*+\n")
CHANGED_LETTER = re.compile(r"\[([^\W\d_])\](?=[^\W\d_])")  # "[R]efunds take five days"
OMISSION = re.compile(r"\.\.\.|…|\[[^\[\]]*+\]")
# Places where part of a quotation may not begin or end: "able to refund" is not in "unable to refund", nor "5 days" in
# "15 days" or "1.5 days". In other scripts, endings and articles are written next to a word.
CUTS_A_WORD = re.compile(rf"(?<=[{LETTERS}])(?=[{LETTERS}])|(?<=[0-9][.,])(?=[0-9])|(?<=[0-9])(?=[.,][0-9])")
FOLDED_MARKS = str.maketrans(
    "“”„\u201f«»\u2018’\u201a\u201b\u2010\u2011\u2012\u2013\u2014", '"' * 6 + "'" * 4 + "-" * 5, "\u00ad"
)
MOST_COMPARED = 30_000_000  # characters of sources times quotations
MOST_SHOWN_NUMBERS = 5


class QuoteSettings(CheckSettings):
    """Quotations that count, and their sources."""

    against: Sources = ("context",)
    """sources to search: context, prompt, reference"""
    min_words: Annotated[Count, Field(ge=1)] = 3
    """minimum number of words of a quotation; shorter ones are ignored"""
    case_sensitive: bool = False
    """whether "Refund" and "refund" differ"""
    require: bool = False
    """fail an output without a quotation"""


def _as_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"found {value!r}, expected a number")
    written = str(value).removeprefix("-")
    if numbers_in(written) != [written]:
        raise ValueError(f"found {value!r}, expected a number such as 24 or 99.5")
    return written


class GroundedNumberSettings(CheckSettings):
    """Numbers that need no source, and the sources of the others."""

    against: Sources = ("context",)
    """sources to search: context, prompt, reference"""
    allow: tuple[Annotated[str, BeforeValidator(_as_number)], ...] = ()
    """numbers that are always allowed, such as 24 or 99.5"""


@register_check(
    "quotes_in_context",
    QuoteSettings,
    columns=SOURCE_COLUMNS,
    cost="rows",
    examples=(
        Example('It says "entry is free".', True, others={"context": ["On Mondays, entry\nis free."]}),
        Example('It says "entry is always free".', False, others={"context": ["On Mondays, entry is free."]}),
        Example('It says "entry is free".', None, others={"context": None}),
    ),
)
def quotes_in_context(shard: pa.Table, settings: QuoteSettings) -> CheckVerdicts:
    """Every quotation in the output is found in the row's context, or in another source named in `against`.

    A quotation is text in "...", “...”, „...“, «...», 「...」 or 『...』 with at least `min_words` words and no blank
    line; single quotes are ignored, as they are too often apostrophes. Markdown code is ignored. An output without a
    quotation passes, as "no quotations", unless `require` is set. If a source is missing, the row is unscored.

    Whitespace, shapes of quote marks and dashes and, without `case_sensitive`, case are folded; . , ; : ! ? at the end
    belong to the output. "..." and text in square brackets, such as "[...]" or a citation, are omissions: the parts
    around them are searched separately. In Latin, Greek and Cyrillic script a quotation begins and ends with a word:
    "able to pay" is not in "unable to pay". Nothing else is normalised: "é" as one and as two code points differ. A
    character of a script without spaces is a word. Above 30 million characters, sources times distinct parts, a row is
    unscored as too long to compare.
    """
    texts = text_column(shard, "output")
    has_all = has_sources(shard, settings.against)
    is_judged = pc.and_(has_all, find_likely(texts, QUOTE_MARK))
    bodies = without_code(texts.filter(is_judged)).to_pylist()
    sources = source_texts(shard, settings.against, is_judged)
    findings = [_judge_quotes(text, row_sources, settings) for text, row_sources in zip(bodies, sources, strict=True)]
    return place_findings(
        is_judged, findings, unjudged(has_all, settings.against, not settings.require, "no quotations")
    )


def _judge_quotes(text: str, sources: Sequence[str], settings: QuoteSettings) -> RowFinding:
    quotations = list(dict.fromkeys(_quotations(text, settings.min_words)))
    if not quotations:
        return RowFinding(not settings.require, "no quotations")
    parts_by_quotation = {quotation: _quoted_parts(quotation, settings.case_sensitive) for quotation in quotations}
    size = len(set().union(*parts_by_quotation.values())) * sum(map(len, sources))
    if size > MOST_COMPARED:
        size_text = f"found {size} characters times parts of quotations, at most {MOST_COMPARED}"
        return RowFinding(None, reason=f"too long to compare: {size_text}")
    folded = "\n".join(_fold(source, settings.case_sensitive) for source in sources)
    for quotation in quotations:
        if not all(_contains_part(part, folded) for part in parts_by_quotation[quotation]):
            return RowFinding(
                False, f"'{cut_text(quotation, EXCERPT_CHARACTERS)}' is not in the {' or '.join(settings.against)}"
            )
    return RowFinding(True)


def _quotations(text: str, min_words: int) -> Iterator[str]:
    """Quotations that are long enough, in order, with their whitespace."""
    for match in QUOTATION.finditer(text):
        quotation = match[match.lastindex or 0]
        if BLANK_LINE.search(quotation) is None and len(WORD.findall(OMISSION.sub(" ", quotation))) >= min_words:
            yield quotation


def _quoted_parts(quotation: str, case_sensitive: bool) -> list[str]:
    """Parts of a quotation to search in a source: all of it, or the pieces around omissions."""
    pieces = OMISSION.split(CHANGED_LETTER.sub(r"\1", quotation))
    return [_fold(part, case_sensitive).rstrip(" .,;:!?") for part in pieces]


def _contains_part(part: str, source: str) -> bool:
    """Whether a source contains the part as whole words."""
    position = source.find(part)
    while position >= 0 and (CUTS_A_WORD.match(source, position) or CUTS_A_WORD.match(source, position + len(part))):
        position = source.find(part, position + 1)
    return position >= 0


def _fold(text: str, case_sensitive: bool) -> str:
    folded = " ".join(text.translate(FOLDED_MARKS).split())
    return folded if case_sensitive else folded.casefold()


@register_check(
    "numbers_in_context",
    GroundedNumberSettings,
    columns=SOURCE_COLUMNS,
    cost="rows",
    examples=(
        Example("1. It had 1,234 visitors, 50% more [2].", True, others={"context": ["1234 visitors, up 50 %"]}),
        Example("It had 1,243 visitors.", False, others={"context": ["1234 visitors, up 50 %"]}),
        Example("It is open 24 hours.", True, {"allow": [24]}, {"context": ["Always open."]}),
        Example("It had 1,234 visitors.", None, others={"context": None}),
    ),
)
def numbers_in_context(shard: pa.Table, settings: GroundedNumberSettings) -> CheckVerdicts:
    """Every number in the output is found in the row's context, or in another source named in `against`.

    Numbers are compared by value: 1,234 is 1234, .5 is 0.5 and 3,50 is 3.5; digits of all scripts count. If a number
    has two readings, one match is enough: 1,234 as 1.234, "12 345" as one number or as two. "5 million" matches
    5,000,000 and also a 5 without a scale, as in a table of millions, but not "5 billion". Signs, currencies, units and
    % are not compared. The name of a month next to a number counts as its number: "3 May" contains 5.

    Ignored are list markers such as "1.", "(2)" and "Step 3:" at the start of a line and before a text, citations in
    brackets, Markdown code, and digits within a word ("H2O", "v2"). Number words are not read, and nothing is computed:
    a sum has to be in the source. An output without a number passes. A row is unscored if a source is missing, or if
    the output or its sources have more than 100,000 different numbers.
    """
    texts = text_column(shard, "output")
    has_all = has_sources(shard, settings.against)
    is_judged = pc.and_(has_all, find_likely(texts, r"\p{Nd}"))
    bodies = _without_citations(without_code(texts.filter(is_judged)))
    sources = source_texts(shard, settings.against, is_judged)
    findings = [_judge_numbers(text, row_sources, settings) for text, row_sources in zip(bodies, sources, strict=True)]
    return place_findings(is_judged, findings, unjudged(has_all, settings.against, True, "no numbers"))


def _without_citations(texts: pa.Array) -> list[str]:
    style = STYLES["brackets"]
    if not pc.any(has_marks(texts, style)).as_py():
        return [str(text) for text in texts.to_pylist()]
    return [replace_marks(pieces, style, " ") for pieces in split_at_marks(texts, style)]


def _judge_numbers(text: str, sources: Sequence[str], settings: GroundedNumberSettings) -> RowFinding:
    try:
        numbers = numbers_in(text)
        if not numbers:
            return RowFinding(True, "no numbers")
        source_numbers = read_source_numbers([*sources, *settings.allow])
    except TooManyNumbers as error:
        return RowFinding(None, reason=f"too many numbers to compare: {error}")
    missing = [number for number in numbers if not source_numbers.contains(number)]
    if not missing:
        return RowFinding(True)
    listed = ", ".join(cut_text(number, EXCERPT_CHARACTERS // 2) for number in missing[:MOST_SHOWN_NUMBERS])
    more = f" and {len(missing) - MOST_SHOWN_NUMBERS} more" if len(missing) > MOST_SHOWN_NUMBERS else ""
    return RowFinding(False, f"not in the {' or '.join(settings.against)}: {listed}{more}")


MOST_NUMBERS = 100_000  # distinct numbers of an output, or of its sources
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

    values: complete values, 5000000 for "5 million". bare: values without their scale, 5 for "5 million". plain: values
    of numbers without a scale.
    """

    values: set[str]
    bare: set[str]
    plain: set[str]

    def contains(self, written: str) -> bool:
        """Whether the source has one of a number's meanings, or each of its parts if it may be several numbers.

        If only one side has a scale, the other may have it in a table header: "5 million" and 5.
        """
        meant = meanings_of(written)
        unscaled = self.plain if meant.has_scale else self.bare
        pieces = _split_numbers(written)
        is_whole = not (self.values.isdisjoint(meant.values) and unscaled.isdisjoint(meant.bare))
        return is_whole or (bool(pieces) and self.values.issuperset(pieces))


def read_source_numbers(texts: Iterable[str]) -> SourceNumbers:
    """Collect all possible meanings of the numbers in the texts. An English month next to a number adds its own number.

    Raises `TooManyNumbers`.
    """
    values: set[str] = set()
    bare: set[str] = set()
    plain: set[str] = set()
    distinct_texts = set(texts)
    numbers = set(chain.from_iterable(map(NUMBER.findall, distinct_texts)))
    if len(numbers) > MOST_NUMBERS:
        raise TooManyNumbers(f"found {len(numbers)} different ones, at most {MOST_NUMBERS}")
    for written in numbers:
        meant, pieces = meanings_of(written), _split_numbers(written)
        values.update(meant.values, pieces)
        (bare if meant.has_scale else plain).update(meant.bare, pieces)
    for text in distinct_texts:
        values.update(MONTHS[before or after] for before, after in MONTH.findall(text.lower()))
    return SourceNumbers(values, bare, plain)


class Meanings(NamedTuple):
    """Possible meanings of a number, as plain decimal texts without superfluous zeros. bare: without its scale."""

    values: frozenset[str]
    bare: frozenset[str]
    has_scale: bool = False


def meanings_of(written: str) -> Meanings:
    """Possible meanings of a number: "1,234" is 1234 or 1.234."""
    if written.isascii() and written.isdigit():
        digits = frozenset({written.lstrip("0") or "0"})
        return Meanings(digits, digits)
    return (
        Meanings(frozenset({written}), frozenset({written})) if len(written) > MOST_DIGITS else _parse_meanings(written)
    )


@lru_cache(maxsize=4096)
def _parse_meanings(written: str) -> Meanings:
    text = _ascii_digits(written)
    scale = SCALE.search(text)
    bare = frozenset(map(_plain_decimal, _points(text[: scale.start()].rstrip(" -") if scale else text)))
    if scale is None:
        return Meanings(bare, bare)
    return Meanings(frozenset(_plain_decimal(value, POWERS[scale[0].lower()]) for value in bare), bare, True)


def _points(plain: str) -> set[str]:
    """Spellings of a number with a point before the fraction and no other marks, or itself if there are none."""
    if _is_decimal(plain):
        # 1.234 may be a fraction or a grouped thousand
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
    return max(index for index, character in enumerate(plain) if not character.isdigit())


def _plain_decimal(spelling: str, power: int = 0) -> str:
    """Normalise 07.50 to 7.5 and multiply by ten to the power; other spellings are returned unchanged."""
    whole, _, fraction = spelling.partition(".")
    if not (whole + fraction).isdigit():
        return spelling
    whole, fraction = whole + fraction[:power].ljust(power, "0"), fraction[power:].rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{fraction}" if fraction else whole


def _split_numbers(written: str) -> list[str]:
    """Parts of a text that may be several numbers: "12 345", "1,2,3", "3.5.2025"; empty for a single number."""
    if (
        written.isdigit()
        or len(written) > MOST_DIGITS
        or SCALE.search(written)
        or (" " not in written and all(_is_decimal(value) for value in meanings_of(written).values))
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
