"""Correlations, errors and severity of two sides' scores, for many weightings of the same pairs at once.

A weighting states how often each pair counts: once, as in the sample, or as often as a bootstrap drew it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.kappa import ratio

MOST_PAIRS = 2_000  # distinct pairs compared with one another; larger inputs go to scipy, one weighting at a time


@dataclass(frozen=True, slots=True)
class Pairs:
    """Distinct pairs of scores. own, others: (pair,). weights: (weighting, pair), >= 0."""

    own: Floats
    others: Floats
    weights: Floats

    def sums(self, values: Floats) -> Floats:
        """Weighted sums of one value per pair: (weighting,)."""
        return self.weights @ values


def pearson(pairs: Pairs) -> Floats:
    """Pearson's r: (weighting,), NaN if a side is constant."""
    return _pearson(pairs.own, pairs.others, pairs.weights)


def spearman(pairs: Pairs) -> Floats:
    """Spearman's rho, Pearson's r of the mid-ranks: (weighting,), NaN if a side is constant."""
    return _pearson(_ranks(pairs.own, pairs.weights), _ranks(pairs.others, pairs.weights), pairs.weights)


def kendall_tau_b(pairs: Pairs) -> Floats:
    """Kendall's tau-b (1945): (weighting,), NaN if a side is constant.

    With more than `MOST_PAIRS` distinct pairs, only a single weighting is computed; others give NaN.
    """
    if pairs.own.size > MOST_PAIRS:
        return _kendall_of_many(pairs)
    signs = np.sign(pairs.own[:, None] - pairs.own) * np.sign(pairs.others[:, None] - pairs.others)
    concordance = ((pairs.weights @ signs) * pairs.weights).sum(axis=1)
    totals = np.square(pairs.weights.sum(axis=1))
    untied = (totals - _tied(pairs.own, pairs.weights)) * (totals - _tied(pairs.others, pairs.weights))
    return ratio(concordance, np.sqrt(np.maximum(untied, 0.0)))


def root_mean_square_error(pairs: Pairs) -> Floats:
    """Root of the mean squared difference: (weighting,), in units of the score."""
    squares = ratio(pairs.sums(np.square(pairs.own - pairs.others)), pairs.weights.sum(axis=1))
    return np.sqrt(np.maximum(squares, 0.0))


def bias(pairs: Pairs) -> Floats:
    """Mean difference, own minus others: (weighting,); positive if the own side is more lenient."""
    return ratio(pairs.sums(pairs.own - pairs.others), pairs.weights.sum(axis=1))


def spread(pairs: Pairs) -> Floats:
    """Standard deviation of the own side over the others': (weighting,); below 1 if it avoids extremes."""
    own, others = (_moment(side, side, pairs.weights) for side in (pairs.own, pairs.others))
    return np.sqrt(np.maximum(ratio(own, others), 0.0))


def _pearson(own: Floats, others: Floats, weights: Floats) -> Floats:
    variances = _moment(own, own, weights) * _moment(others, others, weights)
    return ratio(_moment(own, others, weights), np.sqrt(np.maximum(variances, 0.0)))


def _moment(own: Floats, others: Floats, weights: Floats) -> Floats:
    """Weighted covariance, (weighting,). own, others: (pair,), or (weighting, pair) if weightings differ."""
    totals = weights.sum(axis=1)
    means = [ratio((weights * side).sum(axis=1), totals)[:, None] for side in (own, others)]
    return ratio((weights * (own - means[0]) * (others - means[1])).sum(axis=1), totals)


def _ranks(values: Floats, weights: Floats) -> Floats:
    """Mid-ranks over the number of values, in 0..1: (weighting, pair)."""
    _, places = np.unique(values, return_inverse=True)
    counts = _grouped(places, weights)
    return ratio((np.cumsum(counts, axis=1) - counts / 2)[:, places], weights.sum(axis=1)[:, None])


def _tied(values: Floats, weights: Floats) -> Floats:
    """Number of ordered pairs of pairs with equal values, including each pair with itself: (weighting,)."""
    _, places = np.unique(values, return_inverse=True)
    tied: Floats = np.square(_grouped(places, weights)).sum(axis=1)
    return tied


def _grouped(places: NDArray[np.intp], weights: Floats) -> Floats:
    """Sums of the weights of equal values: (weighting, value)."""
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    return np.add.reduceat(weights[:, order], starts, axis=1)


def _kendall_of_many(pairs: Pairs) -> Floats:
    if len(pairs.weights) > 1 or np.ptp(pairs.own) == 0 or np.ptp(pairs.others) == 0:
        return np.full(len(pairs.weights), np.nan)
    from scipy.stats import kendalltau

    counts = pairs.weights[0].astype(np.int64)
    found = kendalltau(np.repeat(pairs.own, counts), np.repeat(pairs.others, counts))
    return np.array([found.statistic])
