"""Checks of the quotations and the numbers of an output against its sources."""

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field

from gradebook.rubrics.check_kit.bounds import Count
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text, evidence_where
from gradebook.rubrics.check_kit.matching import find_likely, place_findings, without_code
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.grounding.citation_marks import STYLES, has_marks, replace_marks, split_at_marks
from gradebook.rubrics.checks.grounding.number_forms import TooManyNumbers, numbers_in, read_source_numbers
from gradebook.rubrics.checks.privacy.pii_kinds import LETTERS

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
    findings = [_judge_quotes(text, given, settings) for text, given in zip(bodies, sources, strict=True)]
    return place_findings(
        is_judged, findings, unjudged(has_all, settings.against, not settings.require, "no quotations")
    )


def _judge_quotes(text: str, sources: Sequence[str], settings: QuoteSettings) -> RowFinding:
    quotations = list(dict.fromkeys(_quotations(text, settings.min_words)))
    if not quotations:
        return RowFinding(not settings.require, "no quotations")
    parts = {quotation: _quoted_parts(quotation, settings.case_sensitive) for quotation in quotations}
    size = len(set().union(*parts.values())) * sum(map(len, sources))
    if size > MOST_COMPARED:
        found = f"found {size} characters times parts of quotations, at most {MOST_COMPARED}"
        return RowFinding(None, reason=f"too long to compare: {found}")
    folded = "\n".join(_fold(source, settings.case_sensitive) for source in sources)
    for quotation in quotations:
        if not all(_contains_part(part, folded) for part in parts[quotation]):
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
    written = OMISSION.split(CHANGED_LETTER.sub(r"\1", quotation))
    return [_fold(part, case_sensitive).rstrip(" .,;:!?") for part in written]


def _contains_part(part: str, source: str) -> bool:
    """Whether a source contains the part as whole words."""
    place = source.find(part)
    while place >= 0 and (CUTS_A_WORD.match(source, place) or CUTS_A_WORD.match(source, place + len(part))):
        place = source.find(part, place + 1)
    return place >= 0


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
    findings = [_judge_numbers(text, given, settings) for text, given in zip(bodies, sources, strict=True)]
    return place_findings(is_judged, findings, unjudged(has_all, settings.against, True, "no numbers"))


def _without_citations(texts: pa.Array) -> list[str]:
    style = STYLES["brackets"]
    if not pc.any(has_marks(texts, style)).as_py():
        return [str(text) for text in texts.to_pylist()]
    return [replace_marks(pieces, style, " ") for pieces in split_at_marks(texts, style)]


def _judge_numbers(text: str, sources: Sequence[str], settings: GroundedNumberSettings) -> RowFinding:
    try:
        written = numbers_in(text)
        if not written:
            return RowFinding(True, "no numbers")
        known = read_source_numbers([*sources, *settings.allow])
    except TooManyNumbers as error:
        return RowFinding(None, reason=f"too many numbers to compare: {error}")
    missing = [number for number in written if not known.contains(number)]
    if not missing:
        return RowFinding(True)
    shown = ", ".join(cut_text(number, EXCERPT_CHARACTERS // 2) for number in missing[:MOST_SHOWN_NUMBERS])
    more = f" and {len(missing) - MOST_SHOWN_NUMBERS} more" if len(missing) > MOST_SHOWN_NUMBERS else ""
    return RowFinding(False, f"not in the {' or '.join(settings.against)}: {shown}{more}")
