"""Citation marks: their form in each style, and the ids that they name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, Self

import pyarrow as pa
from pydantic import model_validator

from gradebook.rubrics.check_kit.check import CheckSettings
from gradebook.rubrics.check_kit.matching import find_likely, split_at_matches, without_code
from gradebook.rubrics.check_kit.regexes import Regex

StyleName = Literal["brackets", "parentheses", "superscripts", "author_year"]
MOST_RANGE_IDS = 100  # in a range such as [1-3]; a longer one does not cite each id
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
    trimmed: re.Pattern[str] | None = None  # text around an id that is not part of it


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
    """Style of the settings; a custom pattern is a style of its own."""
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
    return "".join(replacement if place % 2 and is_mark[piece] else piece for place, piece in enumerate(pieces))


def cited_ids(pieces: list[str], style: Style) -> list[str]:
    """Ids that a text cites, in order, in lower case."""
    marks = pieces[1::2]
    read = {mark: read_mark(mark, style) for mark in set(marks)}
    return [cited for mark in marks for cited in read[mark]]


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
        parts = [found[1] for part in parts if (found := style.trimmed.fullmatch(part))]
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

    None for a range too: one that is not expanded at this point is too long or runs backwards.
    """
    number = None if RANGE.fullmatch(cited) else FIRST_NUMBER.search(cited)
    return int(number[0]) if number is not None and len(number[0]) <= MOST_POSITION_DIGITS else None
