"""Lexical vectors: hashed character n-grams of a text, weighted by how few texts have them."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZES = (3, 4, 5)  # characters of an n-gram
BUCKETS = 2**18
_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)


class LexicalVectors:
    """Vectors of texts, of unit length, so that an inner product is a cosine similarity.

    An n-gram that occurs c times has the weight (1 + ln c) x idf, idf = 1 + ln((1 + n) / (1 + texts that have it)), of
    the n texts given first (Salton and Buckley 1988; smoothed as by scikit-learn). Case, the form of letters (NFKC)
    and runs of whitespace make no difference.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        frequencies, count = np.zeros(BUCKETS), 0
        for text in texts:
            frequencies[_counts(text)[0]] += 1
            count += 1
        self._idf = 1 + np.log((1 + count) / (1 + frequencies))

    def vectors(self, texts: Sequence[str]) -> Any:
        """(text, bucket), a sparse matrix. A blank text has no n-gram and is a row of zeros."""
        from scipy import sparse

        rows = [self._row(text) for text in texts]
        ends = np.cumsum([0, *(len(buckets) for buckets, _ in rows)])
        buckets = np.concatenate([*(row for row, _ in rows), np.zeros(0, np.int64)])
        weights = np.concatenate([*(row for _, row in rows), np.zeros(0)])
        return sparse.csr_matrix((weights, buckets, ends), shape=(len(rows), BUCKETS))

    def fault(self, text: str) -> str | None:
        """Always None: every text has a vector."""
        return None

    def _row(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        buckets, counts = _counts(text)
        weights = (1 + np.log(counts)) * self._idf[buckets]
        return buckets, weights / np.sqrt((weights**2).sum()) if len(weights) else weights


def _counts(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Buckets of a text's n-grams, ascending, and how often each occurs."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    if not words:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes = np.frombuffer(f" {' '.join(words)} ".encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    hashes = [_hashes(codes, size) for size in SIZES if len(codes) >= size]
    buckets, counts = np.unique(np.concatenate(hashes), return_counts=True)
    return buckets.astype(np.int64), counts


def _hashes(codes: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Bucket of each n-gram of one size: a multilinear hash of its characters, the upper bits of 64."""
    width = len(codes) - size + 1
    mixed = np.full(width, size, np.uint64)
    for place in range(size):
        mixed += codes[place : place + width] * np.uint64(_ODD[place])
        mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(_ODD[0])
    return mixed >> np.uint64(64 - 18)
