"""Checks of structure: sentences, paragraphs and bullets, by punctuation alone and so independent of the language."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.regexes import WHITESPACE

# Each pattern extends to the end of the counted unit, so that the next match is the next unit. Arrow searches the rest
# of the text as a new text, so an anchor alone would match again right after a match.
PARAGRAPH = rf"[^{WHITESPACE}].*(?:\n[^\n]*[^{WHITESPACE}].*)*"
SENTENCE_END = re.compile("[.!?\u2026\u3002\uff01\uff1f]")
BULLET = r"(?m)^[ \t]*(?:[-*+•]|[0-9]+[.)])[ \t][^\n]*"


def _count_matches(shard: pa.Table, pattern: str) -> pa.Int64Array:
    return pc.count_substring_regex(text_column(shard, "output"), pattern).cast(pa.int64())


@register_check(
    "count_sentences",
    BoundsSettings,
    examples=(
        Example("Wait?! It is late.", True, {"min": 2, "max": 2}),
        Example("Wait?! It is late.", False, {"max": 1}),
    ),
)
def count_sentences(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of sentences lies within the bounds.

    A sentence is a run of text with a letter or a number in it, ended by one of . ! ? … 。, by the full-width ! or ?
    (U+FF01, U+FF1F) or by the end of the text. So "Wait?!" is one, and a line end does not end one; "3.14" and "e.g."
    are two, as no language is assumed.
    """
    texts = text_column(shard, "output").to_pylist()
    counts = pa.array([_count_sentences(text or "") for text in texts], pa.int64())
    return judge_counts(counts, settings, "sentence", "sentences")


def _count_sentences(text: str) -> int:
    return sum(any(map(str.isalnum, run)) for run in SENTENCE_END.split(text))


@register_check(
    "count_paragraphs",
    BoundsSettings,
    examples=(
        Example("One.\n\nTwo.", True, {"min": 2, "max": 2}),
        Example("One.\n\nTwo.", False, {"max": 1}),
    ),
)
def count_paragraphs(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of paragraphs lies within the bounds.

    A paragraph is a block of non-blank lines, separated from the next by blank lines (empty or whitespace only). Lines
    end with LF or CRLF.
    """
    return judge_counts(_count_matches(shard, PARAGRAPH), settings, "paragraph", "paragraphs")


@register_check(
    "count_bullets",
    BoundsSettings,
    examples=(
        Example("- one\n2) two\n-5 degrees", True, {"min": 2, "max": 2}),
        Example("- one\n2) two\n-5 degrees", False, {"max": 1}),
    ),
)
def count_bullets(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of bullets lies within the bounds.

    A bullet is a line that starts, after any spaces or tabs, with one of - * + • or with digits and . or ) and
    continues with a space or a tab. So "- one" and "2) two" are bullets, "-5 degrees", "**bold**" and "---" are not.
    """
    return judge_counts(_count_matches(shard, BULLET), settings, "bullet", "bullets")
