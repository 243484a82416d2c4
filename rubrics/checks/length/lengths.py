"""Checks of length: words, lines, characters and bytes."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, text_column
from gradebook.rubrics.check_kit.matching import are_few
from gradebook.rubrics.checks.length.blocks import Bytes, Offsets, count_before, text_blocks

TWO_BYTE_LEAD = 0xC2
TWO_BYTE_SPACES = (0x85, 0xA0)  # U+0085, U+00A0
THREE_BYTE_LEADS = (0xE1, 0xE2, 0xE3)
THREE_BYTE_SPACES = np.array(
    [
        int.from_bytes(chr(point).encode())
        for point in (0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
    ]
)


def count_words(texts: pa.Array) -> pa.Int64Array:
    """Count the maximal runs of non-whitespace, as `len(text.split())` does.

    texts: (output,), string or large_string, may be a slice, valid UTF-8. Returns (output,).
    """
    counts = np.zeros(len(texts), np.int64)
    for rows, content, edges in text_blocks(texts):
        counts[rows] = np.diff(count_before(_find_starts(content, edges), edges))
    return pa.array(counts)


def _find_starts(content: Bytes, edges: Offsets) -> Mask:
    """Mark the first byte of each word: (byte,)."""
    is_space = _find_spaces(content)
    is_start = np.empty(len(content), np.bool_)
    np.greater(is_space[:-1], is_space[1:], out=is_start[1:])
    row_starts = edges[:-1][edges[:-1] < len(content)]
    is_start[row_starts] = ~is_space[row_starts]  # the byte before a row belongs to another row
    return is_start


def _find_spaces(content: Bytes) -> Mask:
    """Mark every byte of every whitespace character. content: (byte,). Returns (byte,)."""
    is_space: Mask = content - np.uint8(0x09) <= 4  # U+0009..000D; below 9 the subtraction wraps around
    is_space |= content - np.uint8(0x1C) <= 4  # U+001C..0020
    if content.max() >= TWO_BYTE_LEAD:
        _mark_wide_spaces(content, is_space)
    return is_space


def _mark_wide_spaces(content: Bytes, is_space: Mask) -> None:
    """Mark the bytes of two-byte and three-byte whitespace. Both arrays: (byte,)."""
    pairs = np.flatnonzero(content == TWO_BYTE_LEAD)
    pairs = pairs[np.isin(content.take(pairs + 1, mode="clip"), TWO_BYTE_SPACES)]
    triples = np.flatnonzero(content - np.uint8(THREE_BYTE_LEADS[0]) < len(THREE_BYTE_LEADS))
    code = content[triples].astype(np.int64) << 16
    code |= content.take(triples + 1, mode="clip").astype(np.int64) << 8
    code |= content.take(triples + 2, mode="clip")
    triples = triples[np.isin(code, THREE_BYTE_SPACES)]
    for places in (pairs, pairs + 1, triples, triples + 1, triples + 2):
        is_space[places] = True


@register_check(
    "length_words",
    BoundsSettings,
    examples=(
        Example("A well-known fact.", True, {"min": 2, "max": 3}),
        Example("A well-known fact.", False, {"min": 4}),
    ),
)
def length_words(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of words lies within the bounds.

    A word is a maximal run of non-whitespace, so "well-known" and "—" are one word each. A text without spaces is one
    word, also in Chinese, Japanese and Thai: use `length_characters` for those. Whitespace is as in Python's
    `str.split` (listed in `gradebook.rubrics.check_kit.regexes`).
    """
    texts = text_column(shard, "output")
    if are_few(texts):
        counts = pa.array([len((text or "").split()) for text in texts.to_pylist()], pa.int64())
    else:
        counts = count_words(texts)
    return judge_counts(counts, settings, "word", "words")


@register_check(
    "length_characters",
    BoundsSettings,
    examples=(Example("naïve", True, {"max": 5}), Example("naïve!", False, {"max": 5})),
)
def length_characters(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of characters lies within the bounds.

    A character is a Unicode code point. Whitespace counts; "é" is one or two code points, depending on how it was
    typed; a family emoji is several.
    """
    counts = pc.utf8_length(text_column(shard, "output")).cast(pa.int64())
    return judge_counts(counts, settings, "character", "characters")


@register_check(
    "length_lines",
    BoundsSettings,
    examples=(
        Example("one\ntwo\n", True, {"min": 2, "max": 2}),
        Example("one\n\nthree", False, {"max": 2}),
    ),
)
def length_lines(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of lines lies within the bounds.

    A line ends with LF or CRLF, or with the end of the output: "a" is one line with or without a line end, and an empty
    output has none. Blank lines count. A lone CR, U+2028 and other breaks do not end a line.
    """
    texts = text_column(shard, "output")
    has_open_line = pc.and_(pc.greater(pc.binary_length(texts), 0), pc.invert(pc.ends_with(texts, "\n")))
    ends = pc.count_substring(texts, "\n").cast(pa.int64())
    return judge_counts(pc.add(ends, has_open_line.cast(pa.int64())), settings, "line", "lines")


@register_check(
    "length_bytes",
    BoundsSettings,
    examples=(Example("naïve", True, {"max": 6}), Example("naïve", False, {"max": 5})),
)
def length_bytes(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of bytes in UTF-8 lies within the bounds.

    An ASCII character is one byte, "é" two, "中" three, most emoji four.
    """
    counts = pc.binary_length(text_column(shard, "output")).cast(pa.int64())
    return judge_counts(counts, settings, "byte", "bytes")
