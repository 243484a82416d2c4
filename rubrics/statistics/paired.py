"""Tests of paired differences: t, signed ranks, McNemar; each right where several pairs belong to one case.

With clusters the null hypothesis is that a whole cluster's sign could as well have been the other one, so its pairs are
flipped together (the clustered signed-rank test of Rosner, Glynn and Lee 2006; Yang, Sun and Hardin 2010 for rates).
Pairs of their own are clusters of one, and the tests are then the ordinary ones.
"""

from dataclasses import dataclass
from math import exp, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.intervals import Interval, Mean, measure_mean, rate_interval

TIED = 1e-9  # of a difference: what a float sum can be off
MOST_EXACT_FLIPS = 50  # clusters that differ: up to here each sign is counted, beyond the sum is taken as normal
MOST_LISTED_FLIPS = 16
MOST_SUMS = 5_000_000  # of 17 to 50 clusters with thousands of pairs each there are more: the sum is taken as normal

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shares:
    """How the pairs went: counts, and each count's share (0..1) with Wilson's interval."""

    better_count: int
    worse_count: int
    tied_count: int
    better_rate: Interval
    worse_rate: Interval
    tied_rate: Interval


def mean_p(mean: Mean) -> float:
    """The two-sided p of a mean of 0, by t, of a mean that was measured; clustered where that is.

    NaN under two units. Where all units are equal t has no standard error: p is 1 where they are 0, for nothing speaks
    against equality, and else that of the sign-flip test, exact: 2 ** (1 - unit_count), as all signs are alike in two
    of 2 ** unit_count.
    """
    if mean.unit_count < 2:
        return nan
    if mean.is_constant:
        return 1.0 if abs(mean.mean) <= TIED else 2.0 ** (1 - mean.unit_count)
    from scipy.special import stdtr

    return float(2.0 * stdtr(mean.df, -abs(mean.mean) / mean.standard_error))


def wilcoxon(differences: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """The two-sided p of the signed-rank test (Wilcoxon 1945).

    Ties share their mean rank; differences of 0 are ranked and then left out (Pratt 1959), for dropping them first
    throws away how many pairs did not move. Exact up to `MOST_EXACT_FLIPS` units that differ, ties and all; normal
    beyond. NaN where there is no pair, 1 where all are tied.
    """
    found = np.asarray(differences, dtype=np.float64)
    return _flip_p(_signed_ranks(found), clusters)


def mcnemar(is_passed_a: ArrayLike, is_passed_b: ArrayLike, clusters: ArrayLike | None = None) -> float:
    """The exact two-sided p of McNemar's test (1947): do as many pairs go from fail to pass as back?

    Both (n,), truth values. Binomial over the pairs that changed; with clusters, signs of whole clusters, exact up to
    `MOST_EXACT_FLIPS` clusters that changed. NaN where there is no pair, 1 where none changed.
    """
    changes = np.asarray(is_passed_b, dtype=np.float64) - np.asarray(is_passed_a, dtype=np.float64)
    if clusters is not None and np.unique(np.asarray(clusters)).size < changes.size:
        return _flip_p(changes, clusters)
    if not changes.size:
        return nan
    from scipy.special import bdtr

    gained, lost = int((changes > 0).sum()), int((changes < 0).sum())
    return min(1.0, float(2.0 * bdtr(min(gained, lost), gained + lost, 0.5))) if gained + lost else 1.0


def standardised_effect(differences: ArrayLike) -> float:
    """Cohen's d of paired differences, d_z = mean / sd, with Hedges' correction for small n (Hedges 1981, exact).

    NaN where n is under 3 or the sd is 0.
    """
    mean = measure_mean(differences)
    return _corrected(mean.mean / mean.sd, mean.n - 1) if mean.n >= 3 and not mean.is_constant else nan


def count_shares(differences: ArrayLike, clusters: ArrayLike | None = None) -> Shares:
    """How many pairs went up, down or stayed, with intervals on the shares."""
    found = np.asarray(differences, dtype=np.float64)
    is_better, is_worse = found > TIED, found < -TIED
    better_count, worse_count = int(is_better.sum()), int(is_worse.sum())
    rates = [rate_interval(each, clusters=clusters) for each in (is_better, is_worse, ~(is_better | is_worse))]
    return Shares(better_count, worse_count, found.size - better_count - worse_count, *rates)


def adjust_for_many(p_values: ArrayLike) -> Floats:
    """Adjust p values for how many there are, by the false discovery rate (Benjamini and Hochberg 1995).

    p_values: (test,); NaN stays NaN and counts as no test. An adjusted p of at most q marks the tests to be rejected so
    that the expected share of false ones among them is at most q, also where the tests are positively dependent.
    """
    found = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(found.size, np.nan)
    places = np.flatnonzero(~np.isnan(found))
    falling = places[np.argsort(-found[places], kind="stable")]
    ranks = np.arange(falling.size, 0, -1)
    adjusted[falling] = np.minimum(np.minimum.accumulate(found[falling] * falling.size / ranks), 1.0)
    return adjusted


def _signed_ranks(differences: Floats) -> Floats:
    """The mean rank of each |difference|, from 1, under its sign; 0 for what is tied. Integers or halves."""
    sizes = np.round(np.abs(differences), 9)
    _, codes, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    signs = np.where(np.abs(differences) <= TIED, 0.0, np.sign(differences))
    return np.asarray(signs * ranks[codes], dtype=np.float64)


def _flip_p(scores: Floats, clusters: ArrayLike | None) -> float:
    """The two-sided p of a sum of integers or halves, each cluster's sum as likely to have had the other sign."""
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
    """P(|sum of +-steps| >= total), each sign a fair coin: all 2^n sums."""
    sums = np.zeros(1, dtype=np.int64)
    for step in steps.tolist():
        sums = np.concatenate([sums + step, sums - step])
    return float((np.abs(sums) >= total).mean())


def _summed_flip_p(steps: NDArray[np.int64], total: int) -> float:
    """The same by the chance of each sum of the positive steps, a step after the other."""
    most = int(steps.sum())
    chances = np.zeros(most + 1)
    chances[0], reached = 1.0, 0
    for step in steps.tolist():
        chances[step : reached + step + 1] += chances[: reached + 1].copy()
        chances /= 2.0
        reached += step
    # sum = 2 x positive - most; it is symmetric, so both tails are alike.
    return min(1.0, 2.0 * float(chances[: (most - total) // 2 + 1].sum()))


def _corrected(effect: float, df: int) -> float:
    from scipy.special import gammaln

    return float(effect * exp(gammaln(df / 2) - gammaln((df - 1) / 2)) * sqrt(2 / df))
