"""Tests of paired signs: signed ranks and McNemar; each valid if several pairs belong to one case.

They test whether gains and losses are symmetric, or equally many, which is not whether the mean is 0: see
`mean_difference` for that.

With clusters, the null hypothesis is that the sign of a whole cluster could equally have been the opposite, so its
pairs are flipped together (the clustered signed-rank test of Rosner, Glynn and Lee 2006; Yang, Sun and Hardin 2010 for
rates). Independent pairs are clusters of one, for which the tests are the ordinary ones.
"""

from dataclasses import dataclass
from math import exp, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.intervals import (
    SPREAD_TOLERANCE,
    Interval,
    Mean,
    rate_interval,
    wilson_of,
)
from gradebook.rubrics.statistics.mean_difference import TIED
from gradebook.rubrics.statistics.strata import Strata, measure_strata, weighted_mean

# clusters that differ: up to this number the signs are enumerated, above it the sum is taken as normal
MOST_EXACT_FLIPS = 50
MOST_LISTED_FLIPS = 16
MOST_SUMS = 5_000_000  # 17 to 50 clusters with thousands of pairs each exceed it: the sum is taken as normal


@dataclass(frozen=True, slots=True)
class Shares:
    """Numbers of pairs by outcome, and each outcome's share (0..1, NaN without pairs) with Wilson's interval."""

    better_count: int
    worse_count: int
    tied_count: int
    better_share: float
    worse_share: float
    tied_share: float
    better_rate: Interval
    worse_rate: Interval
    tied_rate: Interval


def wilcoxon(differences: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """Two-sided p of the signed-rank test (Wilcoxon 1945).

    Ties share their mean rank; differences of 0 are ranked and then removed (Pratt 1959), as removing them first would
    ignore how many pairs did not change. Exact up to `MOST_EXACT_FLIPS` units that differ, including ties; normal
    above. NaN without pairs, 1 if all are tied.
    """
    found = np.asarray(differences, dtype=np.float64)
    return _flip_p(_signed_ranks(found), clusters)


def mcnemar(is_passed_a: ArrayLike, is_passed_b: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """Exact two-sided p of McNemar's test (1947): whether as many pairs go from fail to pass as back.

    Both (n,), truth values. Binomial over the pairs that changed; with clusters, signs of whole clusters, exact up to
    `MOST_EXACT_FLIPS` clusters that changed. NaN without pairs, 1 if none changed.
    """
    changes = np.asarray(is_passed_b, dtype=np.float64) - np.asarray(is_passed_a, dtype=np.float64)
    if clusters is not None and np.unique(np.asarray(clusters)).size < changes.size:
        return _flip_p(changes, clusters)
    if not changes.size:
        return nan
    from scipy.special import bdtr

    gained, lost = int((changes > 0).sum()), int((changes < 0).sum())
    return min(1.0, float(2.0 * bdtr(min(gained, lost), gained + lost, 0.5))) if gained + lost else 1.0


def effect_of(mean: Mean) -> float:
    """Cohen's d of paired differences, d_z = mean / sd, with Hedges' correction for small n (Hedges 1981, exact).

    NaN if n is below 3 or the sd is 0.
    """
    return _corrected(mean.mean / mean.sd, mean.n - 1) if mean.n >= 3 and mean.sd > SPREAD_TOLERANCE else nan


def count_shares(differences: ArrayLike, clusters: ArrayLike | None = None, strata: Strata | None = None) -> Shares:
    """Count the pairs that rose, fell or stayed, with the shares, weighted by strata, and their intervals."""
    found = np.asarray(differences, dtype=np.float64)
    is_better, is_worse = found > TIED, found < -TIED
    better_count, worse_count = int(is_better.sum()), int(is_worse.sum())
    outcomes = (is_better, is_worse, ~(is_better | is_worse))
    better, worse, tied = (weighted_mean(each, strata) for each in outcomes)
    if strata is None:
        rates = [rate_interval(each, clusters=clusters) for each in outcomes]
    else:
        rates = [wilson_of(measure_strata(each, strata, clusters, of_scores=True)) for each in outcomes]
    tied_count = found.size - better_count - worse_count
    return Shares(better_count, worse_count, tied_count, better, worse, tied, *rates)


def adjust_for_many(p_values: ArrayLike) -> Floats:
    """Adjust p values for multiple tests, by the false discovery rate (Benjamini and Hochberg 1995).

    p_values: (test,); NaN stays NaN and does not count as a test. Rejecting the tests with an adjusted p of at most q
    keeps the expected share of false rejections at or below q, also for positively dependent tests.
    """
    found = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(found.size, np.nan)
    places = np.flatnonzero(~np.isnan(found))
    falling = places[np.argsort(-found[places], kind="stable")]
    ranks = np.arange(falling.size, 0, -1)
    adjusted[falling] = np.minimum(np.minimum.accumulate(found[falling] * falling.size / ranks), 1.0)
    return adjusted


def adjust_step_down(p_values: ArrayLike) -> Floats:
    """Adjust p values so that any false rejection at all has the probability of the level at most (Holm 1979).

    p_values: as in `adjust_for_many`. For a few tests each of which decides, such as gates.
    """
    found = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(found.size, np.nan)
    places = np.flatnonzero(~np.isnan(found))
    rising = places[np.argsort(found[places], kind="stable")]
    adjusted[rising] = np.minimum(np.maximum.accumulate(found[rising] * np.arange(rising.size, 0, -1)), 1.0)
    return adjusted


def _signed_ranks(differences: Floats) -> Floats:
    """Mean rank of each |difference|, from 1, with its sign; 0 for ties. Integers or halves."""
    sizes = np.round(np.abs(differences), 9)
    _, codes, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    signs = np.where(np.abs(differences) <= TIED, 0.0, np.sign(differences))
    return np.asarray(signs * ranks[codes], dtype=np.float64)


def _flip_p(scores: Floats, clusters: ArrayLike | None) -> float:
    """Two-sided p of a sum of integers or halves, with each cluster's sum equally likely to have the opposite sign."""
    if not scores.size:
        return nan
    sums, _ = cluster_sums(scores, clusters)
    sums = sums[np.abs(sums) > 0.25]
    if not sums.size:
        return 1.0
    total = abs(float(sums.sum()))
    steps = np.rint(2 * np.abs(sums)).astype(np.int64)
    if steps.size <= MOST_LISTED_FLIPS:
        return _listed_flip_p(steps, round(2 * total))
    if steps.size <= MOST_EXACT_FLIPS and steps.sum() <= MOST_SUMS:
        return _summed_flip_p(steps, round(2 * total))
    from scipy.special import ndtr

    return float(2.0 * ndtr(-total / sqrt(float(np.square(sums).sum()))))


def _listed_flip_p(steps: NDArray[np.int64], total: int) -> float:
    """P(|sum of +-steps| >= total), each sign a fair coin, by all 2^n sums."""
    sums = np.zeros(1, dtype=np.int64)
    for step in steps.tolist():
        sums = np.concatenate([sums + step, sums - step])
    return float((np.abs(sums) >= total).mean())


def _summed_flip_p(steps: NDArray[np.int64], total: int) -> float:
    """P as in `_listed_flip_p`, by the probability of each sum of the positive steps, one step at a time."""
    most = int(steps.sum())
    chances = np.zeros(most + 1)
    chances[0], reached = 1.0, 0
    for step in steps.tolist():
        chances[step : reached + step + 1] += chances[: reached + 1].copy()
        chances /= 2.0
        reached += step
    # sum = 2 x positive - most; it is symmetric, so both tails are equal.
    return min(1.0, 2.0 * float(chances[: (most - total) // 2 + 1].sum()))


def _corrected(effect: float, df: int) -> float:
    from scipy.special import gammaln

    return float(effect * exp(gammaln(df / 2) - gammaln((df - 1) / 2)) * sqrt(2 / df))
