"""Finding many titles in many lines."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gradebook.rubrics.checks.markdown.lines import Places, match_mask

FEW_LINES = 1_000  # they are matched in less time than more patterns are compiled
MOST_CHARACTERS = 5_000  # of the titles in one pattern: RE2 refuses a pattern that is too large


def find_each(texts: pa.Array, titles: Sequence[str], before: str, after: str) -> list[Places]:
    """For each title, the places of the texts that match it between the two patterns, in order: [title] of (text,)."""
    words = [re.escape(title.strip()) for title in titles]
    return list(_find(texts, np.arange(len(texts)), words, before, after))


def _find(texts: pa.Array, places: Places, words: Sequence[str], before: str, after: str) -> Iterator[Places]:
    """As `find_each`, places being those of the texts.

    Half of the titles at a time in one pattern, then half of those where it matches: a text that is one of 60 titles
    is looked at a dozen times and not 60, one that is none of them once.
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
