"""Checks of length: words and characters."""

import pyarrow as pa
import pyarrow.compute as pc

from rubrics.checks.bounds import BoundsSettings, judge_counts
from rubrics.checks.columns import text_column
from rubrics.checks.registry import CheckVerdicts, Example, register_check
from rubrics.checks.words import count_words


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

    A word is a maximal run of non-whitespace, so "well-known" and "—" are one word each, and a text without spaces is
    one word, in Chinese too. Whitespace is what Python's `str.split` splits at (listed in `rubrics.checks.regexes`).
    """
    return judge_counts(count_words(text_column(shard, "output")), settings, "word", "words")


@register_check(
    "length_characters",
    BoundsSettings,
    examples=(Example("naïve", True, {"max": 5}), Example("naïve!", False, {"max": 5})),
)
def length_characters(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of characters lies within the bounds.

    A character is a Unicode code point: whitespace counts, "é" is one or two of them as it was written, and an emoji of
    a family is several.
    """
    counts = pc.utf8_length(text_column(shard, "output")).cast(pa.int64())
    return judge_counts(counts, settings, "character", "characters")
