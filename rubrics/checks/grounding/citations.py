"""Checks of citations: how many, and whether what they name is there."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, Self

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
    CitationMarkSettings,
    Style,
    cited_ids,
    fold_id,
    has_marks,
    mark_style,
    position_of,
    read_mark,
    split_at_marks,
)

CITED = "\x01"  # stands for a citation mark while sentences are told apart
# A sentence and the marks after its stop, which belong to it; possessive, so that no text makes it go back.
SENTENCE = re.compile(
    rf"[^.!?…。\uff01\uff1f\n]*+(?:[.!?…。\uff01\uff1f]++|\n++|\Z)[\"'”’»)*_]*+(?:[ \t]*+\(?{CITED}\)?)*+"
)
PARAGRAPH_END = re.compile(r"\n[ \t\r]*+\n")
ABBREVIATION = re.compile(r"(?:\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs|cf|al|No|Fig|[Aa]pprox|pp|e\.g|i\.e)|\b[A-Z])\.\Z")
# These end a sentence or not, as the next word begins.
BEFORE_SMALL = re.compile(r"(?:\b(?:etc|Inc|Ltd|Co|Corp|Jr|Sr|[A-Za-z]\.[A-Za-z])\.|\.\.\.|…)\Z")
MOST_MARKS = 40  # characters after a stop that are looked through for it
ENDS_ALWAYS = "\n。\uff01\uff1f"
NEXT_WORD = re.compile(r"[ \t]*+([^ \t])")
LETTER = re.compile(r"[^\W\d_]")


class CitationCountSettings(CitationMarkSettings, BoundsSettings):
    """How many citations there may be."""

    is_distinct: bool = False
    """count an id once, however often it is cited"""


class CitationSourceSettings(CitationMarkSettings):
    """What the citations are held against."""

    context_pattern: Regex | None = None
    """finds the ids in the passages themselves: its first group, without one the whole match; without it, an id is the
    position of a passage"""
    count_from: Literal[0, 1] = 1
    """the position of the first passage: 0 or 1"""
    require: bool = False
    """an output that cites nothing fails"""
    each: Literal["sentence", "paragraph"] | None = None
    """each sentence, or each paragraph, has to hold a citation"""

    @model_validator(mode="after")
    def _names_need_a_pattern(self) -> Self:
        if self.style == "author_year" and self.context_pattern is None:
            raise ValueError("found style author_year without context_pattern, expected the pattern of a passage's id")
        return self


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

    Each id counts: [2, 3] is two citations and [4-6] three, a range over 100 is one. In brackets an id holds a digit
    and no space, slash or colon, so "[sic]", "[x]", "[link](https://...)" and "[10:30]" are none, and "[2024-05-03]" is
    one. Markdown code is left out. With `is_distinct` case is folded. The styles go by shape alone: "(1)" may be
    a list marker and "m²" a unit.
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
    """Every citation in the output names a passage of the row's context. Without a context it can't tell.

    An id is a position: the first whole number in it, so [doc-4] is the fourth passage of the list. With
    `context_pattern` an id has to be one of those that the passages hold, case folded. An output that cites nothing
    passes unless `require` or `each` is set; an empty list of passages holds no id. What a citation is,
    `count_citations` says.

    With `each`, a citation right after the full stop still belongs to the sentence. Headings, lines that end with a
    colon, and pieces without a letter need none. Sentences end at . ! ? … or their East Asian forms and at a line end,
    not after a few English abbreviations or an initial.
    """
    texts, context = (text_column(shard, name) for name in ("output", "context"))
    style = mark_style(settings)
    is_told = context.is_valid()
    is_judged = pc.and_(is_told, has_marks(texts, style)) if settings.each is None else is_told
    unjudged = same_verdicts(len(texts), _judge_ids([], set(), settings))
    others = CheckVerdicts(
        pc.if_else(is_told, unjudged.is_passed, pa.scalar(None, pa.bool_())),
        pc.if_else(is_told, unjudged.evidence, pa.scalar(None, pa.string())),
        evidence_where(pc.invert(is_told), "no context"),
    )
    return place_findings(is_judged, _judge_rows(texts.filter(is_judged), context.filter(is_judged), settings), others)


def _judge_rows(texts: pa.Array, context: pa.ListArray, settings: CitationSourceSettings) -> Iterator[RowFinding]:
    """What is found in each row that has a context, in order."""
    style = mark_style(settings)
    for pieces, known in zip(split_at_marks(texts, style), _known_ids(context, settings), strict=True):
        finding = _judge_ids(cited_ids(pieces, style), known, settings)
        unit = _uncited_unit(pieces, style, settings.each) if finding.is_passed and settings.each else None
        yield finding if unit is None else RowFinding(False, f"no citation in '{cut_text(unit, EXCERPT_CHARACTERS)}'")


def _known_ids(context: pa.ListArray, settings: CitationSourceSettings) -> list[range | set[str]]:
    """What may be cited in each row: positions, or ids that the passages hold."""
    sizes = pc.list_value_length(context).to_pylist()
    if settings.context_pattern is None:
        return [range(settings.count_from, settings.count_from + size) for size in sizes]
    found = iter(all_matches(context.flatten(), settings.context_pattern))
    return [{fold_id(cited) for _ in range(size) for cited in next(found)} for size in sizes]


def _judge_ids(ids: Sequence[str], known: range | set[str], settings: CitationSourceSettings) -> RowFinding:
    """Hold the cited ids against those that there are."""
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
    """The first sentence or paragraph that needs a citation and has none."""
    texts = [piece.replace(CITED, " ") for piece in pieces]
    is_mark = {mark: bool(read_mark(mark, style)) for mark in set(texts[1::2])}
    texts[1::2] = [CITED if is_mark[mark] else mark for mark in texts[1::2]]
    units = _sentences("".join(texts)) if kind == "sentence" else PARAGRAPH_END.split("".join(texts))
    return next((unit.strip() for unit in units if _needs_citation(unit)), None)


def _needs_citation(unit: str) -> bool:
    stripped = unit.strip()
    is_exempt = CITED in stripped or stripped.startswith("#") or stripped.endswith((":", "\uff1a"))
    return not is_exempt and LETTER.search(stripped) is not None


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a text, each with the citation marks that follow it."""
    pieces: list[str] = []
    for piece in SENTENCE.finditer(text):
        pieces.append(piece[0])
        if not _goes_on(piece[0], text, piece.end()):
            yield "".join(pieces)
            pieces.clear()
    yield "".join(pieces)


def _goes_on(piece: str, text: str, place: int) -> bool:
    """Whether a sentence goes on at the place in the text where a piece of it ends: after "3." and "et al. [1]"."""
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
