"""Texts as runs of numbered words or characters, in pairs: exact, and fast to compare over a whole column.

`count_grams` counts the shared n-grams of many pairs at once, by sorting numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.normalising import keep_where_blank, split_whitespace
from gradebook.rubrics.check_kit.regexes import gap_class

Ids = NDArray[np.int64]
BLOCK_SYMBOLS = 1 << 19  # symbols of both sides of the pairs that are compared at a time
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

    def take(self, indices: Ids) -> "Sequences":
        """Select texts by index, in this order."""
        lengths = self.lengths[indices]
        edges = np.concatenate(([0], np.cumsum(lengths)))
        shifts = np.repeat(self.edges[indices] - edges[:-1], lengths)
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
    lists = split_whitespace(texts)  # a blank text has one empty word
    tokens, edges = lists.flatten(), lists.offsets.to_numpy().astype(np.int64)
    is_token = pc.not_equal(tokens, "").to_numpy(zero_copy_only=False)
    tokens_before = np.concatenate(([0], np.cumsum(is_token)))
    ids = tokens.dictionary_encode().indices.to_numpy().astype(np.int64)
    return Sequences(ids[is_token], tokens_before[edges])


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


Counts = NDArray[np.int64]
LARGEST_KEY = 1 << 62


@dataclass(frozen=True, slots=True)
class GramCounts:
    """n-grams of n = 1, 2, ... on either side of a pair, and shared ones (the minimum of both counts).

    All: (n, pair).
    """

    left: Counts
    right: Counts
    shared: Counts


def count_grams(pairs: SequencePairs, order: int) -> GramCounts:
    """Count the n-grams of each pair for n from 1 to order."""
    orders = np.arange(order)[:, None]
    left, right = (np.maximum(lengths[None, :] - orders, 0) for lengths in pairs.lengths)
    shared = np.zeros((order, len(pairs.lefts)), np.int64)
    for block, lefts, rights in pairs.blocks():
        shared[:, block] = _shared_grams(lefts, rights, left[:, block] + right[:, block])
    return GramCounts(left, right, shared)


def _shared_grams(lefts: Sequences, rights: Sequences, gram_counts: Counts) -> Counts:
    """Count shared n-grams. gram_counts: (n, pair), of both sides. Returns (n, pair)."""
    pair_numbers = np.arange(len(lefts.lengths))
    ids, symbol_count = renumber(np.concatenate((lefts.ids, rights.ids)))
    ends = np.concatenate(
        (np.repeat(lefts.edges[1:], lefts.lengths), np.repeat(rights.edges[1:] + len(lefts.ids), rights.lengths))
    )
    positions = np.arange(len(ids))
    grams = np.concatenate((np.repeat(pair_numbers, lefts.lengths), np.repeat(pair_numbers, rights.lengths)))
    gram_limit = len(pair_numbers)
    shared = np.zeros_like(gram_counts)
    for n, counts in enumerate(gram_counts):
        is_whole = positions + n < ends[positions]
        positions, grams = positions[is_whole], grams[is_whole]
        if not len(positions):
            break
        if gram_limit * symbol_count >= LARGEST_KEY // 2:
            grams, gram_limit = renumber(grams)
        # The pair is the most significant part of a gram, so sorted grams are grouped by pair.
        grams = grams * symbol_count + ids[positions + n]
        gram_limit *= symbol_count
        shared[n] = _shared_by_pair(np.sort(grams * 2 + (positions >= len(lefts.ids))), counts)
    return shared


def _shared_by_pair(keys: Ids, counts: Counts) -> Counts:
    """Count shared grams of each pair.

    keys: (gram,), sorted; twice the gram, plus 1 on the right side. counts: (pair,), number of its keys. Returns
    (pair,).
    """
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] >> 1 != keys[:-1] >> 1)))
    totals = np.diff(np.append(starts, len(keys)))
    rights = np.add.reduceat(keys & 1, starts)
    shared_before = np.concatenate(([0], np.cumsum(np.minimum(totals - rights, rights))))
    edges = np.searchsorted(starts, np.concatenate(([0], np.cumsum(counts))))
    return np.diff(shared_before[edges])
