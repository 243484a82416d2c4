"""Checks of Markdown elements: headings and sections, code blocks, list items, bold and links."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import (
    Mask,
    cut_text,
    evidence_where,
    join_texts,
    quote_words,
    text_column,
    to_mask,
)
from gradebook.rubrics.check_kit.measures import BoundsSettings, CountSettings, judge_counts
from gradebook.rubrics.check_kit.regexes import WHITESPACE, WORD_CHARACTER
from gradebook.rubrics.checks.keywords import ShortWords, name_words
from gradebook.rubrics.checks.markdown.lines import (
    CodeBlocks,
    Indices,
    MarkdownLines,
    count_by_row,
    mark_rows,
    match_mask,
    split_markdown,
)

FEW_LINES = 1_000  # so many lines are matched faster than more patterns are compiled
MOST_CHARACTERS = 5_000  # characters of the titles in one pattern: RE2 refuses very large patterns


def find_titles(texts: pa.Array, titles: Sequence[str], before: str, after: str) -> list[Indices]:
    """Texts that match each title between the two patterns, in order: [title] of (text,)."""
    patterns = [re.escape(title.strip()) for title in titles]
    return list(_find(texts, np.arange(len(texts)), patterns, before, after))


def _find(texts: pa.Array, indices: Indices, patterns: Sequence[str], before: str, after: str) -> Iterator[Indices]:
    """Search as `find_titles` does. indices: of the texts, (text,).

    Half of the titles are combined into one pattern, then half of those for the matches, and so on: a text that is one
    of 60 titles is searched a dozen times instead of 60, any other text once.
    """
    if len(patterns) == 1 or len(texts) <= FEW_LINES:
        for title in patterns:
            yield indices[match_mask(texts, f"{before}{title}{after}")]
        return
    if sum(map(len, patterns)) <= MOST_CHARACTERS:
        is_any = match_mask(texts, f"{before}(?:{'|'.join(patterns)}){after}")
        texts, indices = texts.filter(pa.array(is_any)), indices[is_any]
    middle = len(patterns) // 2
    yield from _find(texts, indices, patterns[:middle], before, after)
    yield from _find(texts, indices, patterns[middle:], before, after)


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
            present = "neither any nor all" if self.any is None else "both any and all"
            raise ValueError(f"found {present}, expected exactly one of them")
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
        """Titles of the given list."""
        return self.any or self.all or ()


@dataclass(frozen=True, slots=True)
class Headings:
    """Headings of a shard, unordered. All: (heading,). title_lines: line of the title."""

    titles: pa.Array
    levels: Indices
    title_lines: Indices


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
    headings = find_headings(lines)
    title_lines = (
        headings.title_lines
        if settings.levels is None
        else headings.title_lines[np.isin(headings.levels, settings.levels)]
    )
    counts = count_by_row(lines.rows[title_lines], len(texts))
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
    lines_by_title = _find_titles(lines, settings)
    found_by_title = [mark_rows(lines.rows[title_lines], len(texts)) for title_lines in lines_by_title]
    if settings.all is None:
        is_passed = pa.array(np.logical_or.reduce(found_by_title))
        evidence = name_words("found ", is_passed, settings.titles, [pa.array(find) for find in found_by_title], True)
        nothing = cut_text(f"found none of {quote_words(settings.titles)}")
        return CheckVerdicts(is_passed, pc.fill_null(evidence, nothing))
    has_all = np.logical_and.reduce(found_by_title)
    missing = name_words(
        "missing ", pa.array(~has_all), settings.all, [pa.array(find) for find in found_by_title], False
    )
    if not settings.in_order:
        return CheckVerdicts(pa.array(has_all), missing)
    misplaced = _find_misplaced(lines, lines_by_title, settings.all, has_all)
    return CheckVerdicts(pa.array(has_all & to_mask(misplaced.is_null())), pc.coalesce(missing, misplaced))


def find_headings(lines: MarkdownLines) -> Headings:
    """Find headings of both kinds."""
    hashed = np.flatnonzero(lines.matches(HASHES))
    groups = pc.extract_regex(lines.texts.take(pa.array(hashed)), HASH_PARTS)
    underlines = np.flatnonzero(lines.matches(UNDERLINE))
    above = underlines - 1
    is_one_output = (above >= 0) & (lines.rows[above] == lines.rows[underlines])
    above, underlines = above[is_one_output], underlines[is_one_output]
    texts = lines.texts.take(pa.array(above))
    is_plain = match_mask(texts, PLAIN) & ~lines.is_code[above]
    is_double = match_mask(lines.texts.take(pa.array(underlines)), DOUBLE)
    levels = pc.binary_length(pc.struct_field(groups, "hashes")).to_numpy().astype(np.int64)
    return Headings(
        pa.concat_arrays([pc.struct_field(groups, "title"), texts.filter(pa.array(is_plain))]),
        np.concatenate([levels, np.where(is_double, 1, 2)[is_plain]]),
        np.concatenate([hashed, above[is_plain]]),
    )


def _find_titles(lines: MarkdownLines, settings: SectionSettings) -> list[Indices]:
    """Lines where the section of each title starts: [title] of (line,)."""
    case = "" if settings.case_sensitive else "(?i)"
    lines_by_title = [np.zeros(0, np.int64) for _ in settings.titles]
    if settings.kind != "label":
        headings = find_headings(lines)
        is_level = (
            np.ones(len(headings.levels), np.bool_) if settings.level is None else headings.levels == settings.level
        )
        before, after = rf"{case}^{DECORATION}(?:{NUMBERING}{DECORATION})??", f"{DECORATION}$"
        for index, indices in enumerate(find_titles(headings.titles, settings.titles, before, after)):
            lines_by_title[index] = headings.title_lines[indices[is_level[indices]]]
    if settings.kind != "heading":
        likely = np.flatnonzero(lines.matches(LABEL_MARK))
        texts = lines.texts.take(pa.array(likely))
        for index, indices in enumerate(find_titles(texts, settings.titles, f"{case}{LABEL_START}", LABEL_END)):
            lines_by_title[index] = np.concatenate([lines_by_title[index], likely[indices]])
    return lines_by_title


def _find_misplaced(
    lines: MarkdownLines, lines_by_title: list[Indices], titles: tuple[str, ...], has_all: Mask
) -> pa.StringArray:
    """First title of each output that does not come below the previous one, if all titles are present: (output,)."""
    reached = np.full(len(has_all), -1, np.int64)
    misplaced = pa.nulls(len(has_all), pa.string())
    for index, (title, title_lines) in enumerate(zip(titles, lines_by_title, strict=True)):
        rows = lines.rows[title_lines]
        is_below = title_lines > reached[rows]
        following = np.full(len(has_all), NOWHERE)
        np.minimum.at(following, rows[is_below], title_lines[is_below])
        is_missed = has_all & (following == NOWHERE) & (reached != NOWHERE)
        message = f"{title!r} does not stand below {titles[index - 1]!r}"
        misplaced = pc.coalesce(misplaced, evidence_where(pa.array(is_missed), message))
        reached = following
    return misplaced


LANGUAGE = r"^\{?\.?(?P<language>[^\s,{}]*)"  # also "{.python}" and "{python, echo=TRUE}" of Pandoc and R
PYTHON_BLOCK = "```python\nprint(1)\n```"


class CodeBlockSettings(BoundsSettings):
    """Bounds on the number of fenced code blocks."""

    language: Annotated[str, Field(pattern=r"^[^\s,{}`]+$")] | None = None
    """count only blocks whose opening fence names this language, ignoring case ("py" is not "python")"""


@register_check(
    "count_code_blocks",
    CodeBlockSettings,
    examples=(
        Example(f"Run this:\n\n{PYTHON_BLOCK}", True, {"min": 1, "language": "python"}),
        Example(f"Run this:\n\n{PYTHON_BLOCK}", False, {"min": 1, "language": "sql"}),
        Example("Run `print(1)`.", False, {"min": 1}),
    ),
)
def count_code_blocks(shard: pa.Table, settings: CodeBlockSettings) -> CheckVerdicts:
    """The number of fenced code blocks lies within the bounds.

    A block starts at a line of three or more backticks or tildes, after any indentation, quote marks and at most one
    list mark. It ends at a line of at least as many of the same character and nothing else; an unclosed block counts
    too. A shorter fence inside a longer one is content. The language is the first word after the opening fence.
    Indented code and inline code are not blocks.
    """
    texts = text_column(shard, "output")
    blocks = split_markdown(texts).blocks
    rows = blocks.rows if settings.language is None else blocks.rows[_names_language(blocks, settings.language)]
    kind = "code block" if settings.language is None else f"{settings.language} code block"
    return judge_counts(count_by_row(rows, len(texts)), settings, kind, f"{kind}s")


@register_check(
    "has_closed_fences",
    CheckSettings,
    examples=(
        Example(f"{PYTHON_BLOCK}\nDone.", True),
        Example("No code at all.", True),
        Example("```python\nprint(1)\n", False),
    ),
)
def has_closed_fences(shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    """Every opened code fence is closed.

    Opening and closing fences are as in `count_code_blocks`. An output without a fence passes. The evidence is the line
    of the unclosed fence, counted from 1.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    is_open = ~lines.blocks.is_closed
    rows = lines.blocks.rows[is_open]  # in order, at most one per output: no fence opens inside an open one
    numbers = lines.blocks.firsts[is_open] - lines.starts[rows] + 1
    has_open = pa.array(mark_rows(rows, len(texts)))
    message = join_texts("the fence opened in line ", pa.array(numbers).cast(pa.string()), " is not closed")
    return CheckVerdicts(pc.invert(has_open), evidence_where(has_open, message))


def _names_language(blocks: CodeBlocks, language: str) -> Mask:
    languages = pc.struct_field(pc.extract_regex(blocks.info_strings, LANGUAGE), "language")
    return to_mask(pc.equal(pc.utf8_lower(languages), language.lower()))


ListKind = Literal["any", "ordered", "unordered"]
MARKS = {"any": "(?:[-*+]|[0-9]{1,9}[.)])", "ordered": "[0-9]{1,9}[.)]", "unordered": "[-*+]"}
BREAK = r"^[ \t]*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,})\r?$"


class ListItemSettings(BoundsSettings):
    """Bounds on the number of items."""

    kind: ListKind = "any"
    """items to count: `ordered` (numbered), `unordered` or `any`"""


@register_check(
    "count_list_items",
    ListItemSettings,
    examples=(
        Example("1. one\n2. two\n   - nested", True, {"min": 3, "max": 3}),
        Example("1. one\n2. two\n   - nested", False, {"min": 3, "kind": "ordered"}),
    ),
)
def count_list_items(shard: pa.Table, settings: ListItemSettings) -> CheckVerdicts:
    """The number of items in Markdown lists lies within the bounds; nested items count.

    An item is a line that starts, after any spaces or tabs, with one of `- * +` or with up to nine digits and `.` or
    `)`, followed by a space or a tab and some text. Fenced code, quotes, breaks (`* * *`) and items without text do not
    count, nor does "•", which is not a Markdown mark (`count_bullets` counts it). `- - a` is one item. A line of prose
    that happens to start with "2024. " counts.
    """
    lines = split_markdown(text_column(shard, "output"))
    unit = "list item" if settings.kind == "any" else f"{settings.kind} list item"
    return judge_counts(lines.count(find_items(lines, settings.kind)), settings, unit, f"{unit}s")


def find_items(lines: MarkdownLines, kind: ListKind = "any") -> Mask:
    """Whether each line starts an item of that kind: (line,)."""
    is_item = lines.matches(rf"^[ \t]*{MARKS[kind]}[ \t].*[^{WHITESPACE}]")
    if kind != "ordered" and is_item.any():
        is_item &= ~match_mask(lines.texts, BREAK)
    return is_item


# Escaped character or inline code; the first match wins, as in "\`" and in "`\`".
LITERAL = r"\\[!-/:-@\[-`{-~]|``(?:[^`]|`[^`])+``|`[^`]+`"
LITERAL_STAND_IN = "x"
STARS = rf"\*\*\*?[^*{WHITESPACE}](?:(?:[^*]|\*[^*])*?\*?[^*{WHITESPACE}])?\*\*"
OUTSIDE = rf"[^{WORD_CHARACTER}]"
UNDERSCORES = rf"(?:^|{OUTSIDE})___?[^_{WHITESPACE}](?:(?:[^_]|_[^_])*?_?[^_{WHITESPACE}])?__(?:_|{OUTSIDE}|$)"
TARGET = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)"
IMAGE = rf"!\[(?:[^\[\]]|\[[^\[\]]*\])*\]{TARGET}"
LINK = rf"\[(?:[^\[\]]|\[[^\[\]]*\])*\]{TARGET}|(?i:https?://|\bwww\.)[^{WHITESPACE}<>\"')\]]+"


@register_check(
    "count_bold",
    BoundsSettings,
    examples=(
        Example("**Yes**, and __no__.", True, {"min": 2, "max": 2}),
        Example("2 ** 3 and `**code**`", False, {"min": 1}),
    ),
)
def count_bold(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of bold passages lies within the bounds.

    Bold is text on one line between `**` and `**`, or between `__` and `__` outside a word, without whitespace next to
    the marks; `***bold italic***` is one passage. Code and escaped marks do not count. Bold across a line end is not
    found, and HTML is not read.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    rows = [_find_inline(lines, STARS, "**"), _find_inline(lines, UNDERSCORES, "__")]
    counts = count_by_row(np.concatenate(rows), len(texts))
    return judge_counts(counts, settings, "bold passage", "bold passages")


@register_check(
    "count_links",
    BoundsSettings,
    examples=(
        Example("See [the guide](guide.md) or https://example.org.", True, {"min": 2, "max": 2}),
        Example("![a chart](chart.png)", False, {"min": 1}),
    ),
)
def count_links(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of Markdown links and bare addresses lies within the bounds, wherever the links lead.

    Use `count_urls` for web addresses only, for the domains that links may lead to, or for other schemes.

    A Markdown link is `[text](target)` with any target and counts once; an image is not a link, but a link around one
    is. A bare address starts with http://, https:// or www. anywhere, including angle brackets, HTML and the definition
    of a reference link such as `[text][1]`; uses of the definition are not counted. Code and e-mail addresses do not
    count. Targets are not looked up.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    counts = count_by_row(_find_inline(lines, LINK, "](", "://", "www.", ignored=IMAGE), len(texts))
    return judge_counts(counts, settings, "link", "links")


def _find_inline(lines: MarkdownLines, pattern: str, *signs: str, ignored: str | None = None) -> Indices:
    """Output of each match outside code. Only lines with one of the signs can match. ignored: a pattern to ignore."""
    has_sign = reduce(pc.or_, [pc.match_substring(lines.texts, sign, ignore_case=sign == "www.") for sign in signs])
    is_likely = to_mask(has_sign) & ~lines.is_code
    if not is_likely.any():
        return np.zeros(0, np.int64)
    likely = pc.replace_substring_regex(lines.texts.filter(pa.array(is_likely)), LITERAL, LITERAL_STAND_IN)
    if ignored is not None:
        likely = pc.replace_substring_regex(likely, ignored, LITERAL_STAND_IN)
    return lines.rows[is_likely].repeat(pc.count_substring_regex(likely, pattern).to_numpy())
