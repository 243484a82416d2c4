"""Significance: whether a difference is beyond chance, one decision for every section and sentence; paired signs.

Tests of paired signs: signed ranks and McNemar; each valid if several pairs belong to one case.
They test whether gains and losses are symmetric, or equally many, which is not whether the mean is 0: see
`measure_difference` for that.

With clusters, the null hypothesis is that the sign of a whole cluster could equally have been the opposite, so its
pairs are flipped together (the clustered signed-rank test of Rosner, Glynn and Lee 2006; Yang, Sun and Hardin 2010 for
rates). Independent pairs are clusters of one, for which the tests are the ordinary ones.

Test of a slice of the outputs against the others: is its mean lower than chance explains?
Were the slice's outputs drawn at random, its mean would have the distribution of a sample without replacement. Its
variance and skewness follow from those of all scores; its tail is that of Pearson's type III with both (Mielke and
Berry 2007, Permutation Methods). Skewness matters: near the ceiling a few low scores make the lower tail heavy.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import exp, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats, cluster_sums
from gradebook.rubrics.statistics.intervals import SPREAD_TOLERANCE, Interval, Mean, rate_interval, wilson_of
from gradebook.rubrics.statistics.means import TIED
from gradebook.rubrics.statistics.strata import Strata, measure_strata, weighted_mean

SIGNIFICANT = 0.05


class Chance(StrEnum):
    """Direction of a difference beyond chance. WITHIN: it may be chance; UNKNOWN: too few values for a test."""

    ABOVE = "above"
    BELOW = "below"
    WITHIN = "within"
    UNKNOWN = "unknown"

    @property
    def is_beyond(self) -> bool:
        return self in (Chance.ABOVE, Chance.BELOW)


def is_significant(p: float | None) -> bool:
    """Whether p is small enough; an unknown p is not."""
    return p is not None and p <= SIGNIFICANT


def chance_of_p(difference: float, p: float | None) -> Chance:
    """Decide by a p, adjusted where several rows are tested together."""
    if p is None:
        return Chance.UNKNOWN
    if not is_significant(p) or not difference:
        return Chance.WITHIN
    return Chance.ABOVE if difference > 0 else Chance.BELOW


def chance_of_interval(low: float | None, high: float | None, by_chance: float = 0.0) -> Chance:
    """Decide by a 95% interval. by_chance: the value without a difference; ABOVE: the interval lies above it."""
    if low is None or high is None:
        return Chance.UNKNOWN
    if low <= by_chance <= high:
        return Chance.WITHIN
    return Chance.ABOVE if low > by_chance else Chance.BELOW


def p_of_interval(value: float, low: float, high: float, by_chance: float = 0.0, *, degrees: float) -> float:
    """Probability of a value under by_chance, from its 95% interval (Altman and Bland 2011), to adjust for many values.

    degrees: of freedom of Student's quantile in the interval. At most `SIGNIFICANT` exactly if by_chance is outside the
    interval: the end on its side gives the standard error.
    """
    distance = value - by_chance
    margin = value - low if distance > 0 else high - value
    if margin <= 0.0:
        return 1.0 if low <= by_chance <= high else 0.0
    from scipy.special import stdtr, stdtrit

    return float(2.0 * stdtr(degrees, -stdtrit(degrees, 1.0 - SIGNIFICANT / 2.0) * abs(distance) / margin))


def adjust_families(primary: ArrayLike, secondary: ArrayLike) -> tuple[Floats, Floats]:
    """Adjust p for all tests of a comparison: where nothing differs, the smallest is at most 0.05 in 5% of comparisons.

    primary: of the overall scores; secondary: of criteria and categories; NaN: no test. Benjamini and Hochberg within a
    family. A family counts only once it is beyond chance as a whole, by Holm (1979) over the two families' smallest
    adjusted p: the smaller one is doubled, and the other one is tested after it.
    """
    families = [adjust_for_many(p_values) for p_values in (primary, secondary)]
    least = [np.nanmin(family) if np.isfinite(family).any() else np.nan for family in families]
    if np.isnan(least).any():
        return families[0], families[1]
    first = 2.0 * min(least)
    family_ps = [first if p == min(least) else max(first, p) for p in least]
    adjusted = [
        np.minimum(1.0, np.maximum(family, family_p)) for family, family_p in zip(families, family_ps, strict=True)
    ]
    return adjusted[0], adjusted[1]


def luck_of_best(means: ArrayLike, standard_error: float) -> float:
    """Part of the highest mean that chance explains, at least 0: its fall if the means are shrunk to their own mean.

    means: (candidate,), no NaN. standard_error: of the difference of two of them. The shrinkage is that of empirical
    Bayes: true means have the variance of these, less that of their noise. A single candidate was not chosen: 0.
    """
    array = np.asarray(means, dtype=np.float64)
    if array.size < 2:
        return 0.0
    observed, noise = float(array.var(ddof=1)), standard_error**2 / 2.0
    share = min(1.0, noise / observed) if observed > 0 else 0.0
    return float(array.max() - array.mean()) * share


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
    array = np.asarray(differences, dtype=np.float64)
    return _flip_p(_signed_ranks(array), clusters)


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
    array = np.asarray(differences, dtype=np.float64)
    is_better, is_worse = array > TIED, array < -TIED
    better_count, worse_count = int(is_better.sum()), int(is_worse.sum())
    outcomes = (is_better, is_worse, ~(is_better | is_worse))
    better, worse, tied = (weighted_mean(outcome, strata) for outcome in outcomes)
    if strata is None:
        rates = [rate_interval(outcome, clusters=clusters) for outcome in outcomes]
    else:
        rates = [wilson_of(measure_strata(outcome, strata, clusters, of_scores=True)) for outcome in outcomes]
    tied_count = array.size - better_count - worse_count
    return Shares(better_count, worse_count, tied_count, better, worse, tied, *rates)


def adjust_for_many(p_values: ArrayLike) -> Floats:
    """Adjust p values for multiple tests, by the false discovery rate (Benjamini and Hochberg 1995).

    p_values: (test,); NaN stays NaN and does not count as a test. Rejecting the tests with an adjusted p of at most q
    keeps the expected share of false rejections at or below q, also for positively dependent tests.
    """
    raw = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(raw.size, np.nan)
    tested = np.flatnonzero(~np.isnan(raw))
    falling = tested[np.argsort(-raw[tested], kind="stable")]
    ranks = np.arange(falling.size, 0, -1)
    adjusted[falling] = np.minimum(np.minimum.accumulate(raw[falling] * falling.size / ranks), 1.0)
    return adjusted


def adjust_step_down(p_values: ArrayLike) -> Floats:
    """Adjust p values so that any false rejection at all has the probability of the level at most (Holm 1979).

    p_values: as in `adjust_for_many`. For a few tests each of which decides, such as gates.
    """
    raw = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(raw.size, np.nan)
    tested = np.flatnonzero(~np.isnan(raw))
    rising = tested[np.argsort(raw[tested], kind="stable")]
    adjusted[rising] = np.minimum(np.maximum.accumulate(raw[rising] * np.arange(rising.size, 0, -1)), 1.0)
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


_NORMAL_SKEWNESS = 1e-4  # below this, the distribution equals the normal one to 5 decimals


def shortfall_test(
    n: Floats, rest_n: Floats, shortfall: Floats, sd: Floats, skewness: Floats, inflation: Floats
) -> tuple[Floats, Floats]:
    """One-sided p of each slice's shortfall, and the shortfall's standard error.

    All arguments: (slice,). shortfall: mean of the rest minus mean of the slice. sd, skewness: of all scores, those of
    the slice and of the rest. inflation: variance of the mean of all scores over that of independent ones, at least 1:
    outputs of one case are alike. p is 1 where all scores are equal.
    """
    from scipy.special import gammainc, gammaincc, ndtr

    total = n + rest_n
    standard_error = sd * np.sqrt(inflation * total / (n * rest_n))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = shortfall / standard_error
        of_mean = skewness * (total - 2 * n) / (total - 2) * np.sqrt((total - 1) * inflation / (n * rest_n))
        skew = -of_mean  # the shortfall is large where the slice's mean is low
        shape = 4 / skew**2
        argument = np.maximum(shape + 2 * z / skew, 0.0)
        tail = np.where(skew > 0, gammaincc(shape, argument), gammainc(shape, argument))
        p = np.where(np.abs(skew) < _NORMAL_SKEWNESS, ndtr(-z), tail)
    return np.where(standard_error > 0, p, 1.0), standard_error
