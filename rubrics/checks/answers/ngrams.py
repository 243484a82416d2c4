"""Exact counts of shared n-grams for many pairs of texts at once, by sorting numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.checks.answers.sequences import Ids, SequencePairs, Sequences, renumber

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
    places = np.arange(len(ids))
    grams = np.concatenate((np.repeat(pair_numbers, lefts.lengths), np.repeat(pair_numbers, rights.lengths)))
    gram_limit = len(pair_numbers)
    shared = np.zeros_like(gram_counts)
    for n, counts in enumerate(gram_counts):
        is_whole = places + n < ends[places]
        places, grams = places[is_whole], grams[is_whole]
        if not len(places):
            break
        if gram_limit * symbol_count >= LARGEST_KEY // 2:
            grams, gram_limit = renumber(grams)
        # The pair is the most significant part of a gram, so sorted grams are grouped by pair.
        grams = grams * symbol_count + ids[places + n]
        gram_limit *= symbol_count
        shared[n] = _shared_by_pair(np.sort(grams * 2 + (places >= len(lefts.ids))), counts)
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
