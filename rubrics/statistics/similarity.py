"""Similarity of texts: lexical vectors, and the similarity of outputs to their own texts.

The null of a similarity is the similarity to texts of other cases.

Lexical vectors: hashed character n-grams of a text, weighted by how few texts have them.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_CONTRAST = 1e-6  # 1 - null, below which nothing can be rescaled
Values = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Similarities:
    """Similarities of outputs, all arrays (output,).

    own: to the most similar of the output's own texts, -1..1. null: mean over other cases, of each the most similar
    text; NaN without other cases. other_counts: number of these cases.
    """

    own: Values
    null: Values
    other_counts: Counts

    @property
    def rescaled(self) -> Values:
        """Similarity with the null at 0 and equal texts at 1, clipped to 0..1; NaN where the null is nearly 1."""
        contrast = np.where(self.null < 1 - LEAST_CONTRAST, 1 - self.null, np.nan)
        return np.clip((self.own - self.null) / contrast, 0, 1)


def compare_vectors(
    outputs: Any, own: Any, own_starts: Counts, others: Any, other_starts: Counts, own_indices: Counts
) -> Similarities:
    """Compare outputs with their own texts and with those of other cases, by cosine similarity.

    outputs: (output, dim), own: (text, dim), others: (other text, dim), each of unit length, dense or sparse.
    own_starts: (output,), the first own text of each output; other_starts: (case,), likewise. Each has at least one.
    own_indices: (output,), index of the output's own case among the others, -1 if it is not one of them.
    """
    lengths = np.diff(np.append(own_starts, own.shape[0]))
    is_single = len(lengths) == own.shape[0]  # the usual case needs no copy
    products_by_text = _row_products(
        outputs if is_single else outputs[np.repeat(np.arange(len(lengths)), lengths)], own
    )
    best = np.clip(np.maximum.reduceat(products_by_text, own_starts) if len(lengths) else products_by_text, -1, 1)
    is_own = own_indices >= 0
    counts = len(other_starts) - is_own.astype(np.int64)
    if not len(other_starts):
        return Similarities(best, np.full(len(best), np.nan), counts)
    if len(other_starts) == others.shape[0]:  # a text each: their sum stands for all
        sums = np.asarray(outputs @ np.asarray(others.sum(axis=0, dtype=np.float64)).ravel()).ravel()
        sums[is_own] -= _row_products(outputs[is_own], others[own_indices[is_own]])
    else:
        products = outputs @ others.T
        products = products.toarray() if hasattr(products, "toarray") else products
        products = np.maximum.reduceat(products, other_starts, axis=1)
        sums = products.sum(axis=1, dtype=np.float64)
        sums[is_own] -= products[is_own, own_indices[is_own]]
    return Similarities(best, sums / np.where(counts, counts, np.nan), counts)


NEAR = 0.8  # cosine similarity of two texts of one family


def families_of(texts: Sequence[str]) -> Counts:
    """Family of each text, (text,): texts within `NEAR` of each other, directly or through others, are of one."""
    from scipy.sparse.csgraph import connected_components

    vectors = LexicalVectors(texts).vectors(texts)
    return np.asarray(connected_components(vectors @ vectors.T >= NEAR, directed=False)[1], dtype=np.int64)


def starts_of(groups: Sequence[Sequence[str]]) -> Counts:
    """Index of the first text of each group among all texts: (group,)."""
    return np.cumsum([0, *(len(group) for group in groups[:-1])])[: len(groups)].astype(np.int64)


def zero_rows(vectors: Any) -> NDArray[np.bool_]:
    """Whether each row of a matrix, dense or sparse, is zero: (row,)."""
    is_zero: NDArray[np.bool_] = np.diff(vectors.indptr) == 0 if hasattr(vectors, "indptr") else ~vectors.any(axis=1)
    return is_zero


def _row_products(left: Any, right: Any) -> Values:
    if hasattr(left, "multiply"):
        return np.asarray(left.multiply(right).sum(axis=1)).ravel()
    products: Values = np.einsum("ij,ij->i", left, right)
    return products


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
    for index in range(size):
        mixed += codes[index : index + width] * np.uint64(_ODD[index])
        mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(_ODD[0])
    return mixed >> np.uint64(64 - 18)
