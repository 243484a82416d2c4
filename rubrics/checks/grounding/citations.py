"""Checks of citations: their number, and the presence of the cited passages."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text, evidence_where
from gradebook.rubrics.check_kit.matching import all_matches, place_findings, same_verdicts
from gradebook.rubrics.check_kit.regexes import Regex
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.grounding.citation_marks import (
    STYLES,
    CitationMarkSettings,
    Style,
    cited_ids,
    fold_id,
    has_marks,
    mark_style,
    position_of,
    read_mark,
    replace_marks,
    split_at_marks,
)
from gradebook.rubrics.text.sentences import split_sentences

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
    found: list[CitedSentence] = []
    for sentence in split_sentences(text):
        [pieces] = split_at_marks(pa.array([sentence.text]), style)
        kept, cited = pieces[0], list[int]()
        for mark, following in zip(pieces[1::2], pieces[2::2], strict=True):
            positions = [position_of(each) or 0 for each in read_mark(mark, style)]
            if positions and not LETTER.search(kept) and found:
                before = found[-1]
                found[-1] = before._replace(cited=tuple(dict.fromkeys((*before.cited, *positions))))
            else:
                cited += positions
            is_end = positions and following[:1] in (".", ",", ";", ":", "!", "?", "…", "。")
            kept = (kept.rstrip() if is_end else kept) + (following if positions else mark + following)
        if LETTER.search(kept):
            found.append(CitedSentence(kept.strip(), sentence.start, sentence.stop, tuple(dict.fromkeys(cited))))
    return found


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
    found = [cited_ids(pieces, style) for pieces in split_at_marks(texts.filter(is_cited), style)]
    sizes = [len(set(ids)) if settings.is_distinct else len(ids) for ids in found]
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
    others = CheckVerdicts(
        pc.if_else(has_context, unjudged.is_passed, pa.scalar(None, pa.bool_())),
        pc.if_else(has_context, unjudged.evidence, pa.scalar(None, pa.string())),
        evidence_where(pc.invert(has_context), "no context"),
    )
    return place_findings(is_judged, _judge_rows(texts.filter(is_judged), context.filter(is_judged), settings), others)


def _judge_rows(texts: pa.Array, context: pa.ListArray, settings: CitationSourceSettings) -> Iterator[RowFinding]:
    """Judge each row that has a context, in order."""
    style = mark_style(settings)
    for pieces, known in zip(split_at_marks(texts, style), _known_ids(context, settings), strict=True):
        finding = _judge_ids(cited_ids(pieces, style), known, settings)
        unit = _uncited_unit(pieces, style, settings.each) if finding.is_passed and settings.each else None
        yield finding if unit is None else RowFinding(False, f"no citation in '{cut_text(unit, EXCERPT_CHARACTERS)}'")


def _known_ids(context: pa.ListArray, settings: CitationSourceSettings) -> list[range | set[str]]:
    """Ids that may be cited in each row: positions, or ids in the passages."""
    sizes = pc.list_value_length(context).to_pylist()
    if settings.context_pattern is None:
        return [range(settings.count_from, settings.count_from + size) for size in sizes]
    found = iter(all_matches(context.flatten(), settings.context_pattern))
    return [{fold_id(cited) for _ in range(size) for cited in next(found)} for size in sizes]


def _judge_ids(ids: Sequence[str], known: range | set[str], settings: CitationSourceSettings) -> RowFinding:
    """Compare the cited ids with the known ones."""
    if not ids:
        return RowFinding(not settings.require, "no citations")
    for cited in dict.fromkeys(ids):
        if (position_of(cited) if isinstance(known, range) else cited) not in known:
            there = (
                f"the context has {_count_passages(len(known))}" if isinstance(known, range) else "not in the context"
            )
            return RowFinding(False, f"found [{cut_text(cited, EXCERPT_CHARACTERS)}], {there}")
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
        if not _goes_on(piece[0], text, piece.end()):
            yield "".join(pieces)
            pieces.clear()
    yield "".join(pieces)


def _goes_on(piece: str, text: str, place: int) -> bool:
    """Whether a sentence continues where a piece of it ends: after "3." and "et al. [1]"."""
    following = text[place : place + 1]
    if not following or piece[-1:] in ENDS_ALWAYS:
        return False
    is_cited = piece.endswith((CITED, f"{CITED})"))
    if not following.isspace() and (following in ",;" or not is_cited):
        return True
    if piece[-1:] in "!?":
        return False
    ending = text[max(0, place - MOST_MARKS) : place].rstrip(CITED + " \t()")[-8:]
    if ABBREVIATION.search(ending) is not None:
        return True
    next_word = NEXT_WORD.match(text, place)
    return next_word is not None and next_word[1].islower() and BEFORE_SMALL.search(ending) is not None
