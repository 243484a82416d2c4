"""Selection of outputs to rate next: spread over the judge's scores in proportion to all outputs.

Rating uncertain outputs first would reveal more about the judge, but would make the rated outputs unlike the others,
and the mean wrong. Here every output with a given score has the same probability, so intervals stay valid; and as each
score appears with its share, its sampling error disappears from the mean (Cochran 1977, proportional stratified
sampling).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats

MOST_SCORES = 10  # strata per group; more distinct scores are binned into as many steps of equal size


def rate_next(scores: Floats, is_rated: NDArray[np.bool_], groups: ArrayLike, count: int, seed: int = 0) -> list[int]:
    """Indices of the outputs to rate next, at most count; every prefix of the list is balanced too.

    scores: (output,), the judge's. is_rated: (output,). groups: (output,), such as the model: each gets its share.
    Existing ratings count: a score with fewer ratings than its share gets more now.
    """
    if not scores.size or count < 1:
        return []
    strata = _strata(scores, groups)
    rng = np.random.default_rng(seed)
    rated_counts = np.bincount(strata[is_rated], minlength=strata.max() + 1)
    shares = np.bincount(strata) / strata.size
    order = rng.permutation(scores.size)
    order = order[~is_rated[order]]
    order = order[np.argsort(strata[order], kind="stable")]
    within = np.arange(order.size) - np.searchsorted(strata[order], strata[order], side="left")
    # Sample size at which an output is due: its stratum's share is used up by those before it.
    turns = (rated_counts[strata[order]] + within + 0.5) / shares[strata[order]]
    chosen: list[int] = order[np.argsort(turns, kind="stable")][:count].tolist()
    return chosen


def score_steps(scores: Floats) -> NDArray[np.intp]:
    """Step of each output, from 0: its score's rank among the distinct ones, or its bin if there are too many."""
    distinct = np.unique(scores)
    if distinct.size <= MOST_SCORES:
        return np.searchsorted(distinct, scores)
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, MOST_SCORES + 1)[1:-1]))
    _, steps = np.unique(np.searchsorted(edges, scores, side="right"), return_inverse=True)
    return steps.ravel()


def _strata(scores: Floats, groups: ArrayLike) -> NDArray[np.intp]:
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    _, strata = np.unique(codes.ravel() * (MOST_SCORES + 1) + score_steps(scores), return_inverse=True)
    found: NDArray[np.intp] = strata.ravel()
    return found
