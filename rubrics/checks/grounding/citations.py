"""Checks of citations: their marks, their number, and the presence of the cited passages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, RowFinding, register_check
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text, evidence_where, text_column
from gradebook.rubrics.check_kit.measures import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.regexes import (
    Regex,
    all_matches,
    find_likely,
    place_findings,
    same_verdicts,
    split_at_matches,
    without_code,
)
from gradebook.rubrics.text.sentences import split_sentences

StyleName = Literal["brackets", "parentheses", "superscripts", "author_year"]
MOST_RANGE_IDS = 100  # ids of a range such as [1-3]; a longer range does not cite each id
MOST_POSITION_DIGITS = 6
# In brackets: a number, or a name with a digit in it, optionally after a noun. Possessive, so that it never backtracks.
BRACKETED = re.compile(
    r"(?i:(?:source|doc|document|passage|chunk|context|ref|reference|citation)s?:? #?)?"
    r"""\^?(?=[^0-9]*+[0-9])[^\s\[\](){}<>/:"'=|\\+*%$,;]++|[0-9]++(?::[0-9]++)?†.*+"""
)
YEAR = r"(?:1[5-9]|20)[0-9]{2}[a-z]?"
LEAD = r"(?:see also |see |cf\. |e\.g\.,? )"
PARTICLE = r"(?:(?:de|del|der|den|des|di|da|du|la|le|ten|ter|van|von|al|el) ){0,3}"
TYPESET = "\u00a0\u2009\u202f"  # no-break, thin and narrow no-break space, which RE2's `\\s` lacks
SPACE = rf"[\s{TYPESET}]"
NAME = rf"[A-ZÀ-Þ][^\s{TYPESET}(),;.]*"
PAGE = rf"(?:,{SPACE}?pp?\.{SPACE}?[0-9]+(?:[-–][0-9]+)?)"
RANGE = re.compile(r"([0-9]{1,6})[-–—]([0-9]{1,6})")
FIRST_NUMBER = re.compile(r"[0-9]+")
EDGES = "[](){}【】\uff3b\uff3d \t\r\n"
PLAIN = str.maketrans(f"⁰¹²³⁴⁵⁶⁷⁸⁹⁻{TYPESET}", "0123456789-   ")


@dataclass(frozen=True, slots=True)
class Style:
    """Form of a citation mark: a pattern in RE2's syntax, the separators of its ids, and the pattern of each part."""

    pattern: str
    separators: str = "[,;]"
    part: re.Pattern[str] | None = None
    trimmed: re.Pattern[str] | None = None  # pattern of text around an id that is removed


STYLES: Mapping[StyleName, Style] = MappingProxyType(
    {
        "brackets": Style(
            r"[\[【\x{ff3b}][^\[\]【】\x{ff3b}\x{ff3d}\n/]*[0-9][^\[\]【】\x{ff3b}\x{ff3d}\n/]*[\]】\x{ff3d}]",
            part=BRACKETED,
        ),
        "parentheses": Style(rf"\([0-9]{{1,3}}(?:{SPACE}?[,;–-]{SPACE}?[0-9]{{1,3}})*\)"),
        "superscripts": Style("[⁰¹²³⁴-⁹]+(?:[,⁻][⁰¹²³⁴-⁹]+)*"),
        "author_year": Style(
            (
                rf"\({LEAD}*{PARTICLE}[A-ZÀ-Þ][^()\n]*[^()\n0-9],{SPACE}?{YEAR}{PAGE}?\)"
                rf"|{NAME}(?: (?:and|&) {NAME}| et al\.)? \({YEAR}\)"
            ).replace(" ", SPACE),
            separators=";",
            trimmed=re.compile(rf"{LEAD}*+(.*?){PAGE}?", re.IGNORECASE),
        ),
    }
)


class CitationMarkSettings(CheckSettings):
    """Form of a citation: a style or a custom pattern."""

    style: StyleName = "brackets"
    """brackets: [1], [2, 3], [4-6], [doc-4], [^1], [Source 2], 【3†...】. parentheses: (1), (2, 3). superscripts: ¹ and
    ²,³. author_year: (Smith, 2020; Lee et al., 2021), Smith (2020)"""
    pattern: Regex | None = None
    """instead of a style: a regular expression in RE2's syntax; the id is its first group, or the whole match without
    one; several ids are separated by commas or semicolons"""

    @model_validator(mode="after")
    def _style_or_pattern(self) -> Self:
        if self.pattern is not None and "style" in self.model_fields_set:
            raise ValueError("found both style and pattern, expected one of them")
        return self


def mark_style(settings: CitationMarkSettings) -> Style:
    """Style named by the settings, or a new style for a custom pattern."""
    return STYLES[settings.style] if settings.pattern is None else Style(settings.pattern)


def has_marks(texts: pa.Array, style: Style) -> pa.BooleanArray:
    """Texts that may have citations: (text,)."""
    return find_likely(texts, style.pattern)


def split_at_marks(texts: pa.Array, style: Style) -> list[list[str]]:
    """Split each text at its marks, without code. Every second piece may be a mark; `read_mark` decides. texts:
    (text,).
    """
    return split_at_matches(without_code(texts), style.pattern)


def replace_marks(pieces: list[str], style: Style, replacement: str) -> str:
    """Join the pieces of a text with each citation mark replaced."""
    is_mark = {piece: bool(read_mark(piece, style)) for piece in set(pieces[1::2])}
    return "".join(replacement if index % 2 and is_mark[piece] else piece for index, piece in enumerate(pieces))


def cited_ids(pieces: list[str], style: Style) -> list[str]:
    """Ids that a text cites, in order, in lower case."""
    marks = pieces[1::2]
    ids_by_mark = {mark: read_mark(mark, style) for mark in set(marks)}
    return [cited for mark in marks for cited in ids_by_mark[mark]]


@lru_cache(maxsize=4096)
def read_mark(mark: str, style: Style) -> tuple[str, ...]:
    """Ids in a mark: [2, 3] has two, [4-6] three, 【4†file】 the id 4, and [see page 3] none."""
    inside = mark.strip(EDGES)
    if style.trimmed is None and inside.isascii() and inside.isalnum() and FIRST_NUMBER.search(inside):
        return (inside.lower(),)  # true for most marks
    parts = [part.strip(EDGES) for part in re.split(style.separators, inside.translate(PLAIN))]
    if style.part is not None and not all(style.part.fullmatch(part) for part in parts):
        return ()
    if style.trimmed is not None:
        parts = [match[1] for part in parts if (match := style.trimmed.fullmatch(part))]
    names = [fold_id(part.partition("†")[0].removeprefix("^")) for part in parts]
    return tuple(cited for name in names if name for cited in _range_ids(name) or [name])


def fold_id(name: str) -> str:
    """Normalise the spelling of an id: "Jones & Lee (2019)" and "(Jones and Lee, 2019)" are the same."""
    return name.translate(PLAIN).strip(EDGES).replace(" (", ", ").replace(" & ", " and ").lower()


def _range_ids(cited: str) -> list[str]:
    ends = RANGE.fullmatch(cited)
    if ends is None:
        return []
    first, last = int(ends[1]), int(ends[2])
    return [str(number) for number in range(first, last + 1)] if first <= last < first + MOST_RANGE_IDS else []


def position_of(cited: str) -> int | None:
    """Position that an id names: its first whole number; None if it has none or a very long one.

    Also None for a range: if it was not expanded before, it is too long or runs backwards.
    """
    number = None if RANGE.fullmatch(cited) else FIRST_NUMBER.search(cited)
    return int(number[0]) if number is not None and len(number[0]) <= MOST_POSITION_DIGITS else None


CITED = "\x01"  # replaces a citation mark while sentences are split
# A sentence and the marks after its full stop, which belong to it; possessive, so that it never backtracks.
SENTENCE = re.compile(
    rf"[^.!?…。\uff01\uff1f\n]*+(?:[.!?…。\uff01\uff1f]++|\n++|\Z)[\"'”’»)*_]*+(?:[ \t]*+\(?{CITED}\)?)*+"
)
PARAGRAPH_END = re.compile(r"\n[ \t\r]*+\n")
ABBREVIATION = re.compile(r"(?:\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs|cf|al|No|Fig|[Aa]pprox|pp|e\.g|i\.e)|\b[A-Z])\.\Z")
# These may end a sentence, depending on the next word.
BEFORE_SMALL = re.compile(r"(?:\b(?:etc|Inc|Ltd|Co|Corp|Jr|Sr|[A-Za-z]\.[A-Za-z])\.|\.\.\.|…)\Z")
MOST_MARKS = 40  # characters after a full stop that are searched for marks
ENDS_ALWAYS = "\n。\uff01\uff1f"
NEXT_WORD = re.compile(r"[ \t]*+([^ \t])")
LETTER = re.compile(r"[^\W\d_]")


class CitationCountSettings(CitationMarkSettings, BoundsSettings):
    """Bounds on the number of citations."""

    is_distinct: bool = False
    """count each id once"""


class CitationSourceSettings(CitationMarkSettings):
    """Sources of the citations."""

    context_pattern: Regex | None = None
    """pattern of the ids in the passages: its first group, or the whole match without one; default: an id is the
    position of a passage"""
    count_from: Literal[0, 1] = 1
    """position of the first passage: 0 or 1"""
    require: bool = False
    """fail an output without citations"""
    each: Literal["sentence", "paragraph"] | None = None
    """require a citation in each sentence or in each paragraph"""

    @model_validator(mode="after")
    def _names_need_a_pattern(self) -> Self:
        if self.style == "author_year" and self.context_pattern is None:
            raise ValueError("found style author_year without context_pattern, expected a pattern of the passages' ids")
        return self


class CitedSentence(NamedTuple):
    """Sentence without its citation marks; start, stop: its place in the text; cited: positions of passages, from 1."""

    text: str
    start: int
    stop: int
    cited: tuple[int, ...]


def cited_sentences(text: str) -> list[CitedSentence]:
    """Sentences of a text, each with the passages that marks in brackets cite: [1], [2, 3], [4-6].

    Marks at the start of a sentence belong to the one before, as after a full stop. A mark without a position cites
    passage 0, which no context has.
    """
    style = STYLES["brackets"]
    sentences: list[CitedSentence] = []
    for sentence in split_sentences(text):
        [pieces] = split_at_marks(pa.array([sentence.text]), style)
        body, cited = pieces[0], list[int]()
        for mark, following in zip(pieces[1::2], pieces[2::2], strict=True):
            positions = [position_of(cited_id) or 0 for cited_id in read_mark(mark, style)]
            if positions and not LETTER.search(body) and sentences:
                before = sentences[-1]
                sentences[-1] = before._replace(cited=tuple(dict.fromkeys((*before.cited, *positions))))
            else:
                cited += positions
            is_end = positions and following[:1] in (".", ",", ";", ":", "!", "?", "…", "。")
            body = (body.rstrip() if is_end else body) + (following if positions else mark + following)
        if LETTER.search(body):
            sentences.append(CitedSentence(body.strip(), sentence.start, sentence.stop, tuple(dict.fromkeys(cited))))
    return sentences


def unread_mark(text: str) -> str | None:
    """First mark of a style that `cited_sentences` does not read: (1), ² or (Smith, 2020); None if there is none."""
    for style in (style for name, style in STYLES.items() if name != "brackets"):
        [pieces] = split_at_marks(pa.array([text]), style)
        if marks := [mark for mark in pieces[1::2] if read_mark(mark, style)]:
            return marks[0]
    return None


@register_check(
    "count_citations",
    CitationCountSettings,
    cost="rows",
    examples=(
        Example("Refunds take 5 days [1], longer abroad [2, 3].", True, {"min": 3}),
        Example("Refunds take 5 days [1]. They are free [1].", False, {"min": 2, "is_distinct": True}),
        Example("Refunds take 5 days (Smith, 2020; Lee, 2021).", True, {"min": 2, "style": "author_year"}),
    ),
)
def count_citations(shard: pa.Table, settings: CitationCountSettings) -> CheckVerdicts:
    """The number of citations lies within the bounds.

    Each id counts: [2, 3] is two citations and [4-6] three; a range over 100 is one. In brackets, an id has a digit and
    no space, slash or colon, so "[sic]", "[x]", "[link](https://...)" and "[10:30]" are not citations, and
    "[2024-05-03]" is one. Markdown code is ignored. With `is_distinct`, case is folded. Styles are matched by shape
    only: "(1)" may be a list marker and "m²" a unit.
    """
    texts = text_column(shard, "output")
    style = mark_style(settings)
    is_cited = has_marks(texts, style)
    cited = [cited_ids(pieces, style) for pieces in split_at_marks(texts.filter(is_cited), style)]
    sizes = [len(set(ids)) if settings.is_distinct else len(ids) for ids in cited]
    counts = pc.replace_with_mask(pa.repeat(0, len(texts)), is_cited, pa.array(sizes, pa.int64()))
    return judge_counts(counts, settings, "citation", "citations")


@register_check(
    "citations_in_context",
    CitationSourceSettings,
    columns=("output", "context"),
    cost="rows",
    examples=(
        Example("It opens at 9 [1] and is free [2].", True, others={"context": ["Opens at 9.", "Entry is free."]}),
        Example("It opens at 9 [1] and is free [3].", False, others={"context": ["Opens at 9.", "Entry is free."]}),
        Example(
            "It opens at 9 [doc-4].", True, {"context_pattern": "^\\[(.+?)\\]"}, {"context": ["[doc-4] Opens at 9."]}
        ),
        Example("It opens at 9 [1]. It is free.", False, {"each": "sentence"}, {"context": ["Opens at 9."]}),
        Example("It opens at 9 [1].", None, others={"context": None}),
    ),
)
def citations_in_context(shard: pa.Table, settings: CitationSourceSettings) -> CheckVerdicts:
    """Every citation in the output names a passage of the row's context. Without a context, it is unscored.

    An id is a position: its first whole number, so [doc-4] is the fourth passage of the list. With `context_pattern`,
    an id has to be one of those in the passages, ignoring case. An output without citations passes unless `require` or
    `each` is set; an empty list of passages has no ids. Citations are as in `count_citations`.

    With `each`, a citation right after the full stop still belongs to the sentence. Headings, lines that end with a
    colon, and pieces without a letter need no citation. Sentences end at . ! ? … or their East Asian forms and at a
    line end, but not after an initial or one of a few English abbreviations.
    """
    texts, context = (text_column(shard, name) for name in ("output", "context"))
    style = mark_style(settings)
    has_context = context.is_valid()
    is_judged = pc.and_(has_context, has_marks(texts, style)) if settings.each is None else has_context
    unjudged = same_verdicts(len(texts), _judge_ids([], set(), settings))
    other_verdicts = CheckVerdicts(
        pc.if_else(has_context, unjudged.is_passed, pa.scalar(None, pa.bool_())),
        pc.if_else(has_context, unjudged.evidence, pa.scalar(None, pa.string())),
        evidence_where(pc.invert(has_context), "no context"),
    )
    return place_findings(
        is_judged, _judge_rows(texts.filter(is_judged), context.filter(is_judged), settings), other_verdicts
    )


def _judge_rows(texts: pa.Array, context: pa.ListArray, settings: CitationSourceSettings) -> Iterator[RowFinding]:
    """Judge each row that has a context, in order."""
    style = mark_style(settings)
    for pieces, known_ids in zip(split_at_marks(texts, style), _citable_ids(context, settings), strict=True):
        finding = _judge_ids(cited_ids(pieces, style), known_ids, settings)
        unit = _uncited_unit(pieces, style, settings.each) if finding.is_passed and settings.each else None
        yield finding if unit is None else RowFinding(False, f"no citation in '{cut_text(unit, EXCERPT_CHARACTERS)}'")


def _citable_ids(context: pa.ListArray, settings: CitationSourceSettings) -> list[range | set[str]]:
    """Ids that may be cited in each row: positions, or ids in the passages."""
    sizes = pc.list_value_length(context).to_pylist()
    if settings.context_pattern is None:
        return [range(settings.count_from, settings.count_from + size) for size in sizes]
    matches = iter(all_matches(context.flatten(), settings.context_pattern))
    return [{fold_id(cited) for _ in range(size) for cited in next(matches)} for size in sizes]


def _judge_ids(ids: Sequence[str], known_ids: range | set[str], settings: CitationSourceSettings) -> RowFinding:
    """Compare the cited ids with the known ones."""
    if not ids:
        return RowFinding(not settings.require, "no citations")
    for cited in dict.fromkeys(ids):
        if (position_of(cited) if isinstance(known_ids, range) else cited) not in known_ids:
            detail = (
                f"the context has {_count_passages(len(known_ids))}"
                if isinstance(known_ids, range)
                else "not in the context"
            )
            return RowFinding(False, f"found [{cut_text(cited, EXCERPT_CHARACTERS)}], {detail}")
    return RowFinding(True)


def _count_passages(count: int) -> str:
    return "1 passage" if count == 1 else f"{count} passages"


def _uncited_unit(pieces: list[str], style: Style, kind: Literal["sentence", "paragraph"]) -> str | None:
    """First sentence or paragraph that needs a citation and has none."""
    text = replace_marks([piece.replace(CITED, " ") for piece in pieces], style, CITED)
    units = _sentences(text) if kind == "sentence" else PARAGRAPH_END.split(text)
    return next((unit.strip() for unit in units if _needs_citation(unit)), None)


def _needs_citation(unit: str) -> bool:
    stripped = unit.strip()
    is_exempt = CITED in stripped or stripped.startswith("#") or stripped.endswith((":", "\uff1a"))
    return not is_exempt and LETTER.search(stripped) is not None


def _sentences(text: str) -> Iterator[str]:
    """Split a text into sentences, each with the citation marks that follow it."""
    pieces: list[str] = []
    for piece in SENTENCE.finditer(text):
        pieces.append(piece[0])
        if not _continues(piece[0], text, piece.end()):
            yield "".join(pieces)
            pieces.clear()
    yield "".join(pieces)


def _continues(piece: str, text: str, position: int) -> bool:
    """Whether a sentence continues after the end of a piece, as after "3." and "et al. [1]"."""
    following = text[position : position + 1]
    if not following or piece[-1:] in ENDS_ALWAYS:
        return False
    is_cited = piece.endswith((CITED, f"{CITED})"))
    if not following.isspace() and (following in ",;" or not is_cited):
        return True
    if piece[-1:] in "!?":
        return False
    ending = text[max(0, position - MOST_MARKS) : position].rstrip(CITED + " \t()")[-8:]
    if ABBREVIATION.search(ending) is not None:
        return True
    next_word = NEXT_WORD.match(text, position)
    return next_word is not None and next_word[1].islower() and BEFORE_SMALL.search(ending) is not None
