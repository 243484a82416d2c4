"""Checks of headings and sections."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.bounds import CountSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, text_column, to_mask
from gradebook.rubrics.check_kit.evidence import cut_text, evidence_where, quote_words
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.checks.keywords.keywords import ShortWords, name_words
from gradebook.rubrics.checks.markdown.lines import (
    MarkdownLines,
    Places,
    count_places,
    mark_rows,
    match_mask,
    split_markdown,
)

FEW_LINES = 1_000  # matching this many is faster than compiling more patterns
MOST_CHARACTERS = 5_000  # of the titles in one pattern: RE2 refuses a pattern that is too large


def find_each(texts: pa.Array, titles: Sequence[str], before: str, after: str) -> list[Places]:
    """Texts that match each title between the two patterns, in order: [title] of (text,)."""
    words = [re.escape(title.strip()) for title in titles]
    return list(_find(texts, np.arange(len(texts)), words, before, after))


def _find(texts: pa.Array, places: Places, words: Sequence[str], before: str, after: str) -> Iterator[Places]:
    """Search as `find_each` does; places are the indices of the texts.

    Half of the titles are combined into one pattern, then half of those for the matches, and so on: a text that is one
    of 60 titles is searched a dozen times instead of 60, any other text once.
    """
    if len(words) == 1 or len(texts) <= FEW_LINES:
        for title in words:
            yield places[match_mask(texts, f"{before}{title}{after}")]
        return
    if sum(map(len, words)) <= MOST_CHARACTERS:
        is_any = match_mask(texts, f"{before}(?:{'|'.join(words)}){after}")
        texts, places = texts.filter(pa.array(is_any)), places[is_any]
    middle = len(words) // 2
    yield from _find(texts, places, words[:middle], before, after)
    yield from _find(texts, places, words[middle:], before, after)


Level = Annotated[int, Field(ge=1, le=6, strict=True)]

HASHES = r"^ {0,3}#{1,6}(?:[ \t\r]|$)"
HASH_PARTS = r"^ {0,3}(?P<hashes>#{1,6})(?:[ \t]+(?P<title>.*?))??(?:[ \t]+#+)?[ \t\r]*$"
UNDERLINE = r"^ {0,3}(?:=+|-+)[ \t\r]*$"
DOUBLE = r"^ {0,3}="
# Line that may precede an underline: not a list, quote, table row, break or other underline.
PLAIN = (
    rf"^ {{0,3}}(?:[^-+*>|#=_0-9{WHITESPACE}]|[-+*]+[^-+*{WHITESPACE}]|_+[^_{WHITESPACE}]"
    rf"|[0-9]+[^0-9.)]|[0-9]+[.)][^{WHITESPACE}])"
)
# Emoji by Unicode block: with Unicode's classes the pattern takes a millisecond to compile.
DECORATION = rf"[{WHITESPACE}*_`~:\x{{ff1a}}\x{{200d}}\x{{fe0f}}\x{{2190}}-\x{{2bff}}\x{{1f000}}-\x{{1faff}}]*"
NUMBERING = rf"(?:[0-9]+(?:\.[0-9]+)*[.)]?[{WHITESPACE}\x{{fe0f}}\x{{20e3}}]+)?"
LABEL_START = rf"^[ \t]*(?:[-*+•][ \t]+)?{DECORATION}{NUMBERING}[*_`{WHITESPACE}]*"
LABEL_END = rf"(?:[*_`{WHITESPACE}]*[:\x{{ff1a}}]|(?:\*\*|__)[{WHITESPACE}]*$)"
LABEL_MARK = r"[:\x{ff1a}*_]"  # every label ends with one of these
NOWHERE = np.iinfo(np.int64).max


class HeadingSettings(CountSettings):
    """Bounds on the number of headings."""

    levels: Annotated[tuple[Level, ...], Field(min_length=1)] | None = None
    """count only headings of these levels, 1 to 6"""


class SectionSettings(CheckSettings):
    """Section titles, under exactly one of `any` and `all`."""

    any: ShortWords | None = None
    """titles of which one is enough"""
    all: ShortWords | None = None
    """titles that are all required"""
    in_order: bool = False
    """require the titles of `all` in the listed order; others may come between them"""
    case_sensitive: bool = False
    """whether "Summary" and "SUMMARY" differ"""
    level: Level | None = None
    """only headings of this level, 1 to 6; labels have none"""
    kind: Literal["heading", "label", "any"] = "heading"
    """start of a section: a Markdown `heading`; a `label`, which is a line that starts with the title and a colon
    ("Summary: ...", "**Summary:**") or consists of the title in bold; or `any` of them"""

    @model_validator(mode="after")
    def _titles_can_be_found(self) -> Self:
        if (self.any is None) == (self.all is None):
            found = "neither any nor all" if self.any is None else "both any and all"
            raise ValueError(f"found {found}, expected exactly one of them")
        if self.in_order and self.all is None:
            raise ValueError("found in_order with any, expected it with all")
        if self.level is not None and self.kind != "heading":
            raise ValueError(f"found level with kind: {self.kind}, expected it with kind: heading")
        for title in self.titles:
            if not title.strip() or "\n" in title:
                raise ValueError(f"found the title {title!r}, expected a single line that isn't blank")
        return self

    @property
    def titles(self) -> tuple[str, ...]:
        """Titles of whichever list is given."""
        return self.any or self.all or ()


@dataclass(frozen=True, slots=True)
class Headings:
    """Headings of a shard, unordered. All: (heading,). places: line of the title."""

    titles: pa.Array
    levels: Places
    places: Places


@register_check(
    "count_headings",
    HeadingSettings,
    examples=(
        Example("# One\n\n## Two\n", True, {"min": 1, "max": 1, "levels": [2]}),
        Example("```\n# a comment\n```", False, {"min": 1}),
    ),
)
def count_headings(shard: pa.Table, settings: HeadingSettings) -> CheckVerdicts:
    """The number of Markdown headings lies within the bounds.

    A heading is a line with one to six # and a space, indented at most three spaces (`#hashtag` is not one), or a line
    of plain text followed by a line of only `=` (level 1) or `-` (level 2). Fenced code and quotes do not count. A
    heading without text counts. A line in bold is not a heading: `has_sections` finds it as a label.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    found = find_headings(lines)
    places = found.places if settings.levels is None else found.places[np.isin(found.levels, settings.levels)]
    counts = count_places(lines.rows[places], len(texts))
    return judge_counts(counts, settings, "heading", "headings")


@register_check(
    "has_sections",
    SectionSettings,
    examples=(
        Example("# Summary\nAll is well.\n# Risks\nNone.", True, {"all": ["summary", "risks"], "in_order": True}),
        Example("# Risks\nNone.\n# Summary\nAll is well.", False, {"all": ["summary", "risks"], "in_order": True}),
        Example("**Summary:** all is well.", True, {"all": ["Summary"], "kind": "label"}),
        Example("Summary of it all", False, {"any": ["Summary"], "kind": "any"}),
    ),
)
def has_sections(shard: pa.Table, settings: SectionSettings) -> CheckVerdicts:
    """The sections are present: at least one of `any`, or every one of `all`.

    A heading has to match the title as a whole. Emphasis, emoji and colons around the title and a number before it are
    ignored: `## 2. **Summary**:` is "Summary", `## Summary of it` is not. Headings are as in `count_headings`; fenced
    code contains neither headings nor labels. With `in_order`, each title has to come below the previous one. Without
    `case_sensitive`, letters match their simple Unicode case variants.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    hits = _find_titles(lines, settings)
    finds = [mark_rows(lines.rows[places], len(texts)) for places in hits]
    if settings.all is None:
        is_passed = pa.array(np.logical_or.reduce(finds))
        found = name_words("found ", is_passed, settings.titles, [pa.array(find) for find in finds], True)
        nothing = cut_text(f"found none of {quote_words(settings.titles)}")
        return CheckVerdicts(is_passed, pc.fill_null(found, nothing))
    has_all = np.logical_and.reduce(finds)
    missing = name_words("missing ", pa.array(~has_all), settings.all, [pa.array(find) for find in finds], False)
    if not settings.in_order:
        return CheckVerdicts(pa.array(has_all), missing)
    misplaced = _find_misplaced(lines, hits, settings.all, has_all)
    return CheckVerdicts(pa.array(has_all & to_mask(misplaced.is_null())), pc.coalesce(missing, misplaced))


def find_headings(lines: MarkdownLines) -> Headings:
    """Find headings of both kinds."""
    hashed = np.flatnonzero(lines.matches(HASHES))
    parts = pc.extract_regex(lines.texts.take(pa.array(hashed)), HASH_PARTS)
    underlines = np.flatnonzero(lines.matches(UNDERLINE))
    above = underlines - 1
    is_one_output = (above >= 0) & (lines.rows[above] == lines.rows[underlines])
    above, underlines = above[is_one_output], underlines[is_one_output]
    texts = lines.texts.take(pa.array(above))
    is_plain = match_mask(texts, PLAIN) & ~lines.is_code[above]
    is_double = match_mask(lines.texts.take(pa.array(underlines)), DOUBLE)
    levels = pc.binary_length(pc.struct_field(parts, "hashes")).to_numpy().astype(np.int64)
    return Headings(
        pa.concat_arrays([pc.struct_field(parts, "title"), texts.filter(pa.array(is_plain))]),
        np.concatenate([levels, np.where(is_double, 1, 2)[is_plain]]),
        np.concatenate([hashed, above[is_plain]]),
    )


def _find_titles(lines: MarkdownLines, settings: SectionSettings) -> list[Places]:
    """Lines where the section of each title starts: [title] of (line,)."""
    case = "" if settings.case_sensitive else "(?i)"
    hits = [np.zeros(0, np.int64) for _ in settings.titles]
    if settings.kind != "label":
        found = find_headings(lines)
        is_level = np.ones(len(found.levels), np.bool_) if settings.level is None else found.levels == settings.level
        before, after = rf"{case}^{DECORATION}(?:{NUMBERING}{DECORATION})??", f"{DECORATION}$"
        for index, places in enumerate(find_each(found.titles, settings.titles, before, after)):
            hits[index] = found.places[places[is_level[places]]]
    if settings.kind != "heading":
        likely = np.flatnonzero(lines.matches(LABEL_MARK))
        texts = lines.texts.take(pa.array(likely))
        for index, places in enumerate(find_each(texts, settings.titles, f"{case}{LABEL_START}", LABEL_END)):
            hits[index] = np.concatenate([hits[index], likely[places]])
    return hits


def _find_misplaced(lines: MarkdownLines, hits: list[Places], titles: tuple[str, ...], has_all: Mask) -> pa.StringArray:
    """First title of each output that does not come below the previous one, if all titles are present: (output,)."""
    reached = np.full(len(has_all), -1, np.int64)
    misplaced = pa.nulls(len(has_all), pa.string())
    for index, (title, places) in enumerate(zip(titles, hits, strict=True)):
        rows = lines.rows[places]
        is_below = places > reached[rows]
        following = np.full(len(has_all), NOWHERE)
        np.minimum.at(following, rows[is_below], places[is_below])
        is_missed = has_all & (following == NOWHERE) & (reached != NOWHERE)
        words = f"{title!r} does not stand below {titles[index - 1]!r}"
        misplaced = pc.coalesce(misplaced, evidence_where(pa.array(is_missed), words))
        reached = following
    return misplaced
