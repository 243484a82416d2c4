"""Checks of length: words, lines, characters and bytes."""

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column


def count_words(texts: pa.Array) -> pa.Int64Array:
    """Count the maximal runs of non-whitespace, as `len(text.split())` does. texts: (output,). Returns (output,)."""
    trimmed = pc.utf8_trim_whitespace(texts)
    counts = pc.list_value_length(pc.utf8_split_whitespace(trimmed)).cast(pa.int64())  # one empty word of an empty text
    return pc.if_else(pc.equal(pc.binary_length(trimmed), 0), 0, counts)


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
    return judge_counts(count_words(text_column(shard, "output")), settings, "word", "words")


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
