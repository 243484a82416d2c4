"""Texts as runs of numbered words or characters, in pairs: exact, and fast to compare over a whole column."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.character_classes import gap_class, whitespace_class
from gradebook.rubrics.check_kit.matching import are_few
from gradebook.rubrics.check_kit.normalising import keep_where_blank

Ids = NDArray[np.int64]
BLOCK_SYMBOLS = 1 << 19  # of both sides of the pairs compared at a time
# Scripts without spaces between words: each of their letters is a word of its own.
UNSPACED_LETTER = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*)"
UNSPACED_BLOCKS = (
    r"[\x{e00}-\x{eff}\x{1000}-\x{109f}\x{1780}-\x{17ff}\x{19e0}-\x{19ff}\x{2e80}-\x{2fdf}\x{3005}-\x{abff}"
    r"\x{f900}-\x{faff}\x{ff00}-\x{ffff}\x{16f00}-\x{3ffff}]"
)


@dataclass(frozen=True, slots=True)
class Sequences:
    """Texts as runs of symbols. ids: (symbol,), each a word or a character. edges: (text + 1,), indices into `ids`."""

    ids: Ids
    edges: Ids

    @property
    def lengths(self) -> Ids:
        """Number of symbols of each text: (text,)."""
        return np.diff(self.edges)

    def take(self, places: Ids) -> "Sequences":
        """Select texts by index, in this order."""
        lengths = self.lengths[places]
        edges = np.concatenate(([0], np.cumsum(lengths)))
        shifts = np.repeat(self.edges[places] - edges[:-1], lengths)
        return Sequences(self.ids[np.arange(edges[-1]) + shifts], edges)


@dataclass(frozen=True, slots=True)
class SequencePairs:
    """Pairs of texts. lefts, rights: (pair,), indices into `sequences`."""

    sequences: Sequences
    lefts: Ids
    rights: Ids

    @property
    def lengths(self) -> tuple[Ids, Ids]:
        """Number of symbols on either side: two of (pair,)."""
        lengths = self.sequences.lengths
        return lengths[self.lefts], lengths[self.rights]

    def blocks(self) -> Iterator[tuple[slice, Sequences, Sequences]]:
        """Yield the pairs in blocks of about `BLOCK_SYMBOLS` symbols, at least one pair each."""
        ends = np.cumsum(np.add(*self.lengths))
        first = 0
        while first < len(ends):
            room = (ends[first - 1] if first else 0) + BLOCK_SYMBOLS
            last = max(int(np.searchsorted(ends, room, side="right")), first + 1)
            block = slice(first, last)
            yield block, self.sequences.take(self.lefts[block]), self.sequences.take(self.rights[block])
            first = last


def split_words(texts: pa.Array) -> Sequences:
    """Split each text into words: runs of letters, marks and numbers; a letter of a script without spaces is a word.

    A text without a word is split at whitespace.
    """
    gap = gap_class(texts)
    # The gap class excludes the underscore, which does not belong to a word here.
    words = pc.replace_substring_regex(pc.replace_substring(texts, "_", " "), f"[{gap}]+", " ")
    return split_spaced(_space_letters(keep_where_blank(words, texts)))


def split_bare_words(texts: pa.Array) -> Sequences:
    """Split at whitespace; a letter of a script without spaces is a word of its own."""
    return split_spaced(_space_letters(texts))


def split_spaced(texts: pa.Array) -> Sequences:
    """Split at whitespace."""
    if are_few(texts):
        return _split_few(texts)
    lists = pc.split_pattern(pc.replace_substring_regex(texts, f"[{whitespace_class(texts)}]", " "), " ")
    tokens, edges = lists.flatten(), lists.offsets.to_numpy().astype(np.int64)
    is_token = pc.not_equal(tokens, "").to_numpy(zero_copy_only=False)
    tokens_before = np.concatenate(([0], np.cumsum(is_token)))
    ids = tokens.dictionary_encode().indices.to_numpy().astype(np.int64)
    return Sequences(ids[is_token], tokens_before[edges])


def _split_few(texts: pa.Array) -> Sequences:
    lists = [text.split() for text in texts.to_pylist()]
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(word, len(numbers)) for words in lists for word in words]
    return Sequences(np.array(ids, np.int64), np.cumsum([0, *map(len, lists)]).astype(np.int64))


def split_characters(texts: pa.Array) -> Sequences:
    """Split each text into characters, numbered by their code points."""
    edges = np.concatenate(([0], np.cumsum(pc.utf8_length(texts).to_numpy()))).astype(np.int64)
    content = "".join(texts.to_pylist()).encode("utf-32-le")
    return Sequences(np.frombuffer(content, np.uint32).astype(np.int64), edges)


def renumber(ids: Ids) -> tuple[Ids, int]:
    """Renumber the distinct ids from 0, in ascending order.

    ids: (symbol,), >= 0. Returns (symbol,) and the number of distinct ids.
    """
    if not len(ids):
        return ids, 0
    largest = int(ids.max())
    if largest > 4 * len(ids):  # a table would be larger than the ids to sort
        distinct, numbers = np.unique(ids, return_inverse=True)
        return numbers.astype(np.int64), len(distinct)
    is_present = np.zeros(largest + 1, np.bool_)
    is_present[ids] = True
    numbers = np.cumsum(is_present) - 1
    return numbers[ids], int(numbers[-1]) + 1


def _space_letters(texts: pa.Array) -> pa.Array:
    is_unspaced = pc.match_substring_regex(texts, UNSPACED_BLOCKS)
    if not pc.any(is_unspaced).as_py():
        return texts
    spaced = pc.replace_substring_regex(texts.filter(is_unspaced), UNSPACED_LETTER, r" \1 ")
    return pc.replace_with_mask(texts, is_unspaced, spaced)
