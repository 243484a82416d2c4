"""Coefficients of agreement: kappas, Krippendorff's alpha, intraclass correlations, correlations and errors.

Agreement beyond chance on levels: the kappas of Cohen, Fleiss, Conger, Brennan and Prediger, and Gwet's AC1.
Each function takes many tables at once, such as those of a bootstrap, along the leading axis. NaN if chance alone
explains everything, as with equal ratings.

Krippendorff's alpha, for any number of raters and missing ratings, with three metrics.
Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability". The package `krippendorff` computes one table at a
time and is under the GPL; here a bootstrap's thousand tables are one matrix product.

Intraclass correlations: the share of the scores' variance due to units instead of raters.
Shrout and Fleiss (1979): (1,1) each unit has its own raters; (2,1) the raters are a sample of raters; (3,1) they are
the only raters, and their severity is ignored. The k forms refer to the mean of the raters.

Correlations, errors and severity of two sides' scores, for many weightings of the same pairs at once.
A weighting states how often each pair counts: once, as in the sample, or as often as a bootstrap drew it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats


def ratio(numerators: Floats, denominators: Floats) -> Floats:
    """Divide; NaN if the denominator is 0 within the rounding error of a float sum."""
    is_zero = np.abs(denominators) <= 1e-12
    return np.where(is_zero, np.nan, numerators / np.where(is_zero, 1.0, denominators))


def distance_weights(scale: Floats, power: int) -> Floats:
    """Weights of disagreements: (level, level). scale: (level,), scores of the levels.

    power 0: all equal; 1: by distance, linear; 2: by its square. With evenly spaced levels, the last two are the linear
    and quadratic weights of Cohen (1968); otherwise the rubric's own distances count.
    """
    distances = np.abs(scale[:, None] - scale[None, :])
    return (distances > 0).astype(np.float64) if power == 0 else distances**power


def cohen_kappa(tables: Floats, weights: Floats) -> Floats:
    """Cohen's weighted kappa (1968) of two raters, 1 - observed over expected disagreement.

    tables: (table, level, level), counts of one rater's level by the other's. weights: see `distance_weights`. Returns
    (table,), in [-1, 1].
    """
    totals = tables.sum(axis=(1, 2))
    expected = np.einsum("tk,tl,kl->t", tables.sum(axis=2), tables.sum(axis=1), weights)
    observed = np.einsum("tkl,kl->t", tables, weights)
    return 1.0 - ratio(observed * totals, expected)


def fleiss_kappa(agreement: Floats, shares: Floats) -> Floats:
    """Fleiss' kappa (1971), for any number of raters; for two raters it is Scott's pi.

    agreement: (table,), mean share of agreeing pairs of ratings per unit. shares: (table, level), of each level, each
    unit with weight 1 whatever its number of ratings, so that ratings may be missing (Gwet 2014, chapter 2). Returns
    (table,).
    """
    expected = np.square(shares).sum(axis=1)
    return ratio(agreement - expected, 1.0 - expected)


def gwet_ac1(agreement: Floats, shares: Floats) -> Floats:
    """Gwet's AC1 (2008), which stays valid with high agreement on one level. Arguments as in `fleiss_kappa`.

    shares has a column for each level, including unused ones, as chance may choose any of them.
    """
    level_count = shares.shape[1]
    if level_count < 2:
        return np.full(len(shares), np.nan)
    expected = (shares * (1.0 - shares)).sum(axis=1) / (level_count - 1)
    return ratio(agreement - expected, 1.0 - expected)


def brennan_prediger(agreement: Floats, level_count: int) -> Floats:
    """Kappa of Brennan and Prediger (1981), where chance gives each level alike. Arguments as in `fleiss_kappa`."""
    if level_count < 2:
        return np.full(agreement.size, np.nan)
    return (agreement - 1.0 / level_count) / (1.0 - 1.0 / level_count)


def conger_kappa(agreement: Floats, rater_shares: Floats) -> Floats:
    """Conger's kappa (1980), Cohen's for any number of raters, each with its own shares of the levels.

    agreement: (table,), see `fleiss_kappa`. rater_shares: (table, rater, level), NaN of raters without ratings. Ratings
    may be missing (Gwet 2014, chapter 2). Returns (table,).
    """
    rater_count = rater_shares.shape[1]
    means = rater_shares.mean(axis=1)
    expected = (np.square(means) - rater_shares.var(axis=1, ddof=1) / rater_count).sum(axis=1)
    return ratio(agreement - expected, 1.0 - expected)


RELATIVE_TOLERANCE = 1e-12  # of a difference of two sums of squares: the rounding error of a float sum
METRICS = ("nominal", "ordinal")  # of levels; the interval metric applies to scores


def krippendorff_alpha(coincidences: Floats, scale: Floats, metric: str) -> Floats:
    """Alpha from coincidence matrices.

    coincidences: (table, level, level): each unit of m ratings adds to each cell its number of such pairs over m - 1.
    scale: (level,), the levels' scores, ascending. metric: one of `METRICS`. Returns (table,), at most 1, NaN if all
    ratings are equal or there are no pairs.
    """
    totals = coincidences.sum(axis=2)
    distances = _squared_distances(totals, scale, metric)
    observed = (coincidences * distances).sum(axis=(1, 2))
    expected = (totals[:, :, None] * totals[:, None, :] * distances).sum(axis=(1, 2))
    return 1.0 - ratio(observed * (totals.sum(axis=1) - 1.0), expected)


def interval_alpha(observed: Floats, counts: Floats, sums: Floats, squares: Floats) -> Floats:
    """Alpha with the interval metric from sums, for scores with any number of values.

    All arrays: (table,). observed: sum over units of the squared differences of their ordered pairs over m - 1. counts,
    sums, squares: of the ratings in units with two or more, preferably of ratings minus their mean, as rounding affects
    the difference of large squares. Returns (table,), at most 1, NaN if all ratings are equal.
    """
    total = counts * squares
    difference = total - np.square(sums)
    expected = np.where(difference <= RELATIVE_TOLERANCE * total, 0.0, 2.0 * difference)
    return 1.0 - ratio(observed * (counts - 1.0), expected)


def _squared_distances(totals: Floats, scale: Floats, metric: str) -> Floats:
    """Squared distances of levels: (table or 1, level, level). totals: (table, level), how often each level was
    given.
    """
    if metric == "ordinal":
        ranks = np.cumsum(totals, axis=1) - totals / 2
        return np.square(ranks[:, :, None] - ranks[:, None, :])
    differences = scale[:, None] - scale[None, :]
    is_other: Floats = (differences != 0).astype(np.float64)
    return is_other[None]


@dataclass(frozen=True, slots=True)
class OneWaySums:
    """Sums over units with raters of their own. All arrays: (table,), units counted as often as they are drawn."""

    units: Floats
    ratings: Floats
    squared_sizes: Floats  # sum of m^2, with m ratings of a unit
    total: Floats
    squares: Floats
    between: Floats  # sum of (sum of a unit)^2 / m


@dataclass(frozen=True, slots=True)
class TwoWaySums:
    """Sums over units that every rater rated. All arrays: (table,), except of_raters (table, rater)."""

    units: Floats
    of_raters: Floats
    squares: Floats
    between: Floats  # sum of (sum of a unit)^2 / k, with k raters


def one_way_correlations(sums: OneWaySums) -> tuple[Floats, Floats]:
    """ICC(1,1) and ICC(1,k): each (table,), at most 1, NaN without variance; (1,k) if no unit's mean varies.

    Units may have different numbers of ratings: k is then k0 of the unbalanced one-way analysis of variance.
    """
    df = sums.units - 1.0
    overall = ratio(np.square(sums.total), sums.ratings)
    mean_between = ratio(sums.between - overall, df)
    mean_within = ratio(sums.squares - sums.between, sums.ratings - sums.units)
    size = ratio(sums.ratings - ratio(sums.squared_sizes, sums.ratings), df)
    difference = mean_between - mean_within
    return _share(difference, mean_between + (size - 1.0) * mean_within), _share(difference, mean_between)


def two_way_correlations(sums: TwoWaySums) -> tuple[Floats, Floats, Floats, Floats]:
    """ICC(2,1), ICC(2,k), ICC(3,1), ICC(3,k): each (table,), at most 1, NaN without variance.

    (3,k) is NaN if the units' means are equal, (2,k) if they differ so little compared with the errors that the
    variance in the denominator is estimated as 0 or less.
    """
    units, raters = sums.units, sums.of_raters.shape[1]
    overall = ratio(np.square(sums.of_raters.sum(axis=1)), units * raters)
    of_units = sums.between - overall
    of_raters = ratio(np.square(sums.of_raters).sum(axis=1), units) - overall
    mean_units = ratio(of_units, units - 1.0)
    mean_raters = of_raters / (raters - 1.0)
    mean_errors = ratio(sums.squares - overall - of_units - of_raters, (units - 1.0) * (raters - 1.0))
    difference = mean_units - mean_errors
    severity = ratio(mean_raters - mean_errors, units)
    return (
        _share(difference, mean_units + (raters - 1.0) * mean_errors + raters * severity),
        _share(difference, mean_units + severity),
        _share(difference, mean_units + (raters - 1.0) * mean_errors),
        _share(difference, mean_units),
    )


def _share(numerators: Floats, variances: Floats) -> Floats:
    """Divide by an estimated variance; NaN if it is 0 or, as possible for (2,k), negative."""
    return ratio(numerators, np.maximum(variances, 0.0))


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
    _, codes = np.unique(values, return_inverse=True)
    counts = _grouped(codes, weights)
    return ratio((np.cumsum(counts, axis=1) - counts / 2)[:, codes], weights.sum(axis=1)[:, None])


def _tied(values: Floats, weights: Floats) -> Floats:
    """Number of ordered pairs of pairs with equal values, including each pair with itself: (weighting,)."""
    _, codes = np.unique(values, return_inverse=True)
    tied: Floats = np.square(_grouped(codes, weights)).sum(axis=1)
    return tied


def _grouped(codes: NDArray[np.intp], weights: Floats) -> Floats:
    """Sums of the weights of equal values: (weighting, value)."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return np.add.reduceat(weights[:, order], starts, axis=1)


def _kendall_of_many(pairs: Pairs) -> Floats:
    if len(pairs.weights) > 1 or np.ptp(pairs.own) == 0 or np.ptp(pairs.others) == 0:
        return np.full(len(pairs.weights), np.nan)
    from scipy.stats import kendalltau

    counts = pairs.weights[0].astype(np.int64)
    correlation = kendalltau(np.repeat(pairs.own, counts), np.repeat(pairs.others, counts))
    return np.array([correlation.statistic])
