"""Character classes in RE2's syntax, as small as the given texts allow.

RE2 compiles a pattern on each call. A pattern with `\\p{L}\\p{M}\\p{N}` takes milliseconds, which dominates a check
over one row. The characters of ASCII texts, or of texts in common blocks, fit into far fewer ranges.
"""

import itertools
import unicodedata
from collections.abc import Iterable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.regexes import WHITESPACE, WORD_CHARACTER

ASCII_GAP = r"\x00-/:-@\[-^`{-\x7f"
ASCII_WHITESPACE = r"\x20\t-\r\x1c-\x1f"
WIDE_GAP = rf"^{WORD_CHARACTER}"
# Latin, Greek, Cyrillic; punctuation and symbols; kana; full-width forms; emoji: classified one by one.
MIXED_BLOCKS = ((0x00, 0x24F), (0x370, 0x52F), (0x2000, 0x2BFF), (0x3000, 0x30FF), (0xFF00, 0xFFEF), (0x1F300, 0x1FAFF))
# Han and Hangul, which are all letters, and the emoji variation selector, which is a mark.
LETTER_BLOCKS = ((0x4E00, 0x9FFC), (0xAC00, 0xD7A3), (0xFE0F, 0xFE0F))


def is_all_ascii(texts: pa.Array) -> bool:
    return pc.all(pc.string_is_ascii(texts)).as_py() is not False


def whitespace_class(texts: pa.Array) -> str:
    """Character class (without brackets) of the whitespace that can occur in these texts."""
    return ASCII_WHITESPACE if is_all_ascii(texts) else WHITESPACE


def gap_class(texts: pa.Array) -> str:
    """Character class (without brackets) of the characters in these texts other than letters, marks, numbers and
    underscores.
    """
    if is_all_ascii(texts):
        return ASCII_GAP
    beyond = f"[^{_class_of(MIXED_BLOCKS + LETTER_BLOCKS)}]"
    return WIDE_GAP if pc.any(pc.match_substring_regex(texts, beyond)).as_py() else _common_gap()


@cache
def _common_gap() -> str:
    """Non-word characters of the mixed blocks."""
    points = itertools.chain.from_iterable(range(first, last + 1) for first, last in MIXED_BLOCKS)
    gaps = [point for point in points if not _is_of_word(chr(point))]
    runs = itertools.groupby(enumerate(gaps), key=lambda numbered: numbered[1] - numbered[0])
    return _class_of((run[0][1], run[-1][1]) for _, run in ((key, list(members)) for key, members in runs))


def _is_of_word(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def _class_of(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)
