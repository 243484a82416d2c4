"""Similarity of outputs to their own texts, beside its null: the similarity to texts of other cases."""

from collections.abc import Sequence
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
    outputs: Any, own: Any, own_starts: Counts, others: Any, other_starts: Counts, own_places: Counts
) -> Similarities:
    """Compare outputs with their own texts and with those of other cases, by cosine similarity.

    outputs: (output, dim), own: (text, dim), others: (other text, dim), each of unit length, dense or sparse.
    own_starts: (output,), the first own text of each output; other_starts: (case,), likewise. Each has at least one.
    own_places: (output,), the place of the output's own case among the others, -1 where it is none of them.
    """
    lengths = np.diff(np.append(own_starts, own.shape[0]))
    is_single = len(lengths) == own.shape[0]  # the usual case needs no copy
    each = _row_products(outputs if is_single else outputs[np.repeat(np.arange(len(lengths)), lengths)], own)
    best = np.clip(np.maximum.reduceat(each, own_starts) if len(lengths) else each, -1, 1)
    is_own = own_places >= 0
    counts = len(other_starts) - is_own.astype(np.int64)
    if not len(other_starts):
        return Similarities(best, np.full(len(best), np.nan), counts)
    if len(other_starts) == others.shape[0]:  # a text each: their sum stands for all
        sums = np.asarray(outputs @ np.asarray(others.sum(axis=0, dtype=np.float64)).ravel()).ravel()
        sums[is_own] -= _row_products(outputs[is_own], others[own_places[is_own]])
    else:
        products = outputs @ others.T
        products = products.toarray() if hasattr(products, "toarray") else products
        products = np.maximum.reduceat(products, other_starts, axis=1)
        sums = products.sum(axis=1, dtype=np.float64)
        sums[is_own] -= products[is_own, own_places[is_own]]
    return Similarities(best, sums / np.where(counts, counts, np.nan), counts)


def starts_of(groups: Sequence[Sequence[str]]) -> Counts:
    """Place of the first text of each group among all texts."""
    return np.cumsum([0, *(len(group) for group in groups[:-1])])[: len(groups)].astype(np.int64)


def zero_rows(vectors: Any) -> NDArray[np.bool_]:
    """Whether each row of a matrix, dense or sparse, is zero: (row,)."""
    found: NDArray[np.bool_] = np.diff(vectors.indptr) == 0 if hasattr(vectors, "indptr") else ~vectors.any(axis=1)
    return found


def _row_products(left: Any, right: Any) -> Values:
    if hasattr(left, "multiply"):
        return np.asarray(left.multiply(right).sum(axis=1)).ravel()
    found: Values = np.einsum("ij,ij->i", left, right)
    return found
