"""Search for many titles in many lines."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gradebook.rubrics.checks.markdown.lines import Places, match_mask

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
