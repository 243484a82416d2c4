"""Checks of structure: sentences, paragraphs and bullets, by punctuation alone and so independent of the language."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, text_column
from gradebook.rubrics.check_kit.matching import are_few
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.checks.length.blocks import Bytes, Offsets, count_before, text_blocks

ASCII_ENDS = b".!?"
WIDE_ENDS = tuple(mark.encode() for mark in ("…", "。", "\uff01", "\uff1f"))  # three bytes each
# First bytes that only letters have: Cyrillic, Han without the extensions, most of Hangul.
IS_LETTER_LEAD = np.isin(np.arange(256), (0xD0, *range(0xE5, 0xEA), 0xEB, 0xEC))


def tally_sentences(texts: pa.Array) -> pa.Int64Array:
    """Count the runs that contain a letter or a number, each ended by an end mark or the end of the text.

    texts: (output,), string or large_string, may be a slice, valid UTF-8. Returns (output,).
    """
    counts = np.zeros(len(texts), np.int64)
    for rows, content, edges in text_blocks(texts):
        stops = _find_sentence_stops(content, edges)
        counts[rows] = np.diff(np.searchsorted(stops, edges, side="right"))
    return pa.array(counts)


def _find_sentence_stops(content: Bytes, edges: Offsets) -> Offsets:
    """Ends of the runs that contain a letter or a number, after their last byte: (sentence,)."""
    is_last = _find_ascii_ends(content)
    is_letter = _find_ascii_letters(content)
    is_wide = content >= 0x80
    has_wide = bool(is_wide.any())
    if has_wide:
        is_letter |= IS_LETTER_LEAD.take(content)
        _move_wide_ends(content, is_wide, is_last)
    is_last[edges[1:][np.diff(edges) > 0] - 1] = True
    stops = np.flatnonzero(is_last) + 1
    has_letter = np.diff(count_before(is_letter, stops), prepend=0) > 0
    if has_wide:
        doubtful = np.flatnonzero(~has_letter & (np.diff(count_before(is_wide, stops), prepend=0) > 0))
        starts = np.concatenate([[0], stops[:-1]])
        has_letter[doubtful] = _have_letters(content, starts[doubtful], stops[doubtful])
    return stops[has_letter]


def _find_ascii_ends(content: Bytes) -> Mask:
    is_end: Mask = content == ASCII_ENDS[0]
    for mark in ASCII_ENDS[1:]:
        is_end |= content == mark
    return is_end


def _find_ascii_letters(content: Bytes) -> Mask:
    """Mark the letters and digits: (byte,). Out of range, the subtractions wrap around."""
    is_letter: Mask = (content | np.uint8(0x20)) - np.uint8(ord("a")) < 26
    is_letter |= content - np.uint8(ord("0")) < 10
    return is_letter


def _move_wide_ends(content: Bytes, is_wide: Mask, is_last: Mask) -> None:
    """Mark the last byte of each three-byte end mark, and unmark its three bytes as wide."""
    for mark in WIDE_ENDS:
        places = np.flatnonzero(content == mark[0])
        for step in (1, 2):
            places = places[content.take(places + step, mode="clip") == mark[step]]
        is_last[places + 2] = True
        for step in range(3):
            is_wide[places + step] = False


def _have_letters(content: Bytes, starts: Offsets, stops: Offsets) -> list[bool]:
    """Whether each run contains a letter or a number. starts, stops: (run,)."""
    runs = content.tobytes() if len(starts) else b""
    return [
        any(map(str.isalnum, runs[start:stop].decode()))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]


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
    texts = text_column(shard, "output")
    if are_few(texts):
        counts = pa.array([_count_sentences(text or "") for text in texts.to_pylist()], pa.int64())
    else:
        counts = tally_sentences(texts)
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
