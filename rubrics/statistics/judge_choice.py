"""Agreement of a judge's scores with people on the order of outputs and models, to choose a judge by.

Kendall's tau has no good answer to ties, which judges of few levels have many of. Pairwise accuracy counts a pair as
right if both order it alike or both call it a tie, and lets the judge call differences up to a margin a tie (Deutsch,
Foster and Freitag 2023). The margin is fitted on one half of the cases and used on the other, so that a judge gains
nothing from having many scores to choose it from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats

EQUAL = 1e-9  # of scores: the rounding error of a float sum
MOST_OUTPUTS = 2_000  # of each half: more are thinned out evenly, as pairs grow with the square


@dataclass(frozen=True, slots=True)
class PairwiseAccuracy:
    """Share of pairs that the judge orders as people do, 0..1; None without pairs. tie_margin: mean of both halves."""

    value: float | None
    tie_margin: float | None
    pair_count: int


def pairwise_accuracy(
    judged: Floats, rated: Floats, cases: NDArray[np.int64], rng: np.random.Generator
) -> PairwiseAccuracy:
    """Accuracy over pairs of outputs, with ties calibrated by cross-fitting over two random halves of the cases.

    judged, rated, cases: (output,), no NaN; cases are numbers from 0.
    """
    sides = rng.permutation(int(cases.max(initial=-1)) + 1)[cases] % 2
    halves = [np.flatnonzero(sides == side) for side in (0, 1)]
    pairs = [_pairs(judged[half], rated[half]) for half in halves]
    if not all(differences.size for differences, _ in pairs):
        return PairwiseAccuracy(None, None, 0)
    margins = [_best_margin(*each) for each in pairs]
    right = [_right(*pairs[side], margins[1 - side]) for side in (0, 1)]
    count = sum(each.size for each in right)
    return PairwiseAccuracy(sum(int(each.sum()) for each in right) / count, sum(margins) / 2.0, count)


def ordered_alike(judged: Floats, rated: Floats) -> tuple[int, int]:
    """Numbers of pairs of models that both means order alike, and of all pairs that people's means tell apart.

    Both (model,).
    """
    differences, truths = _pairs(judged, rated)
    is_told = np.abs(truths) > EQUAL
    return int((is_told & (np.sign(truths) == _signs(differences, EQUAL))).sum()), int(is_told.sum())


def _pairs(judged: Floats, rated: Floats) -> tuple[Floats, Floats]:
    step = -(-judged.size // MOST_OUTPUTS) or 1
    first, second = np.triu_indices(judged[::step].size, 1)
    return tuple(each[::step][second] - each[::step][first] for each in (judged, rated))  # type: ignore[return-value]


def _signs(differences: Floats, margin: float) -> Floats:
    return np.where(np.abs(differences) <= margin, 0.0, np.sign(differences))


def _right(differences: Floats, truths: Floats, margin: float) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = _signs(differences, margin) == _signs(truths, EQUAL)
    return found


def _best_margin(differences: Floats, truths: Floats) -> float:
    """Margin with the most pairs right: `EQUAL`, or one of the judge's own differences."""
    sizes, order = np.abs(differences), np.argsort(np.abs(differences), kind="stable")
    is_tie = np.abs(truths) <= EQUAL
    # A pair inside the margin is right if it is a tie, outside it if the order is right.
    gain = is_tie.astype(np.int64) - (np.sign(differences) == _signs(truths, EQUAL)).astype(np.int64)
    gain[sizes <= EQUAL] = 0
    totals, ascending = np.cumsum(gain[order]), sizes[order]
    is_last = np.append(np.diff(ascending) > EQUAL, True)
    candidates = np.flatnonzero(is_last)
    best = candidates[totals[candidates].argmax()]
    return float(ascending[best]) + EQUAL if totals[best] > 0 else EQUAL
