"""Agreement of raters: all statistics at once, each with its bootstrap interval, or null with the reason.

Kappa and the other categorical statistics use levels; correlations and errors use scores. Both are given as scores in
0..1: for a judge asked for probabilities, the score is their mean and the level their mode.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics import agreement_sums as sums_of
from gradebook.rubrics.statistics import correlation
from gradebook.rubrics.statistics.agreement_sums import Kinds, LevelSums
from gradebook.rubrics.statistics.alpha import METRICS, interval_alpha, krippendorff_alpha
from gradebook.rubrics.statistics.bootstrap import LEAST_DEFINED, percentile_interval, resample_counts
from gradebook.rubrics.statistics.icc import OneWaySums, TwoWaySums, one_way_correlations, two_way_correlations
from gradebook.rubrics.statistics.intervals import DIFFERENCES, LEVEL, SCORES, Interval
from gradebook.rubrics.statistics.kappa import cohen_kappa, distance_weights, fleiss_kappa, gwet_ac1

RESAMPLE_COUNT = 1_000
SEED = 0
MOST_LEVELS = 20  # more distinct values are not levels
MOST_KINDS = 500  # of resampled units; above this, a sample stands for all

_LEVELS = ("percent_agreement", "fleiss_kappa", "gwet_ac1", "alpha_nominal", "alpha_ordinal", "alpha_ratio")
_KAPPAS = ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic")
_SCORES = ("alpha_interval", "icc_1_1", "icc_1_k")
_COMPLETE = ("icc_2_1", "icc_2_k", "icc_3_1", "icc_3_k")
_CORRELATIONS = ("pearson", "spearman", "kendall_tau_b")
_SIDES = (*_CORRELATIONS, "rmse", "bias", "spread")
_OF_ONE = "it is of one rater against the others"
_UNDEFINED = {
    **dict.fromkeys(_CORRELATIONS, "the ratings of one side are all equal"),
    "spread": "the other side's ratings are all equal",
    **dict.fromkeys(("icc_1_k", "icc_3_k"), "the outputs' mean ratings are all equal, or too few"),
    "icc_2_k": "the outputs' mean ratings differ too little beside the raters' errors, or are too few",
}
_AT_MOST_ONE = Interval(-inf, 1.0)
_RANGES = {
    **dict.fromkeys(("percent_agreement", "rmse"), SCORES),
    **dict.fromkeys((*_CORRELATIONS, "bias"), DIFFERENCES),
    "spread": Interval(0.0, inf),
}
STATISTICS = (
    *("percent_agreement", *_KAPPAS, "fleiss_kappa", "gwet_ac1"),
    *("alpha_nominal", "alpha_ordinal", "alpha_interval", "alpha_ratio"),
    *("icc_1_1", "icc_2_1", "icc_3_1", "icc_1_k", "icc_2_k", "icc_3_k"),
    *_SIDES,
)


@dataclass(frozen=True, slots=True)
class Measure:
    """One statistic. value, ci_low, ci_high: None if undefined; reason: why one of them is."""

    statistic: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """All statistics over n units with at least one pair of ratings; pair_count: number of pairs."""

    n: int
    pair_count: int
    measures: tuple[Measure, ...]


Measured = Mapping[str, Floats]


def measure_raters(levels: Floats, scores: Floats, scale: Floats, *, resample_count: int = RESAMPLE_COUNT) -> Agreement:
    """Measure the agreement of raters among themselves. Two raters are treated as two sides, so that all is defined.

    levels, scores: (rater, unit), in [0, 1], NaN where missing, at the same places. scale: scores of the existing
    levels, used or not. The interval comes from a bootstrap over units.
    """
    if len(levels) == 2:
        found = measure_sides(levels, scores, scale, resample_count=resample_count)
        unknown = {name: Measure(name, None, None, None, _OF_ONE) for name in ("bias", "spread")}
        return replace(found, measures=tuple(unknown.get(each.statistic, each) for each in found.measures))
    sizes = (~np.isnan(scores)).sum(axis=0)
    every = scale_of(levels, scale)

    def measure(kinds: Kinds, weights: Floats) -> Measured:
        found = {} if every is None else _level_statistics(sums_of.level_sums(kinds, every, weights), every)
        one_way = sums_of.one_way_sums(kinds, weights)
        observed = sums_of.squared_differences(kinds, weights)
        return found | _score_statistics(observed, one_way, sums_of.two_way_sums(kinds, weights))

    reasons = dict.fromkeys(_LEVELS, _too_many_levels()) if every is None else {}
    reasons |= dict.fromkeys((*_KAPPAS, *_SIDES), f"it is of two raters, found {len(levels)}")
    reasons |= dict.fromkeys(("bias", "spread"), _OF_ONE)
    if (sizes == len(levels)).sum() < 2:
        reasons |= dict.fromkeys(_COMPLETE, "fewer than 2 outputs were rated by every rater")
    kinds = sums_of.count_kinds(levels[:, sizes > 0], scores[:, sizes > 0])
    measures = _measure(kinds, measure, reasons, resample_count)
    return Agreement(int((sizes > 1).sum()), int((sizes * (sizes - 1) // 2).sum()), measures)


def measure_sides(levels: Floats, scores: Floats, scale: Floats, *, resample_count: int = RESAMPLE_COUNT) -> Agreement:
    """Measure the agreement of the first rater with the others, who are not compared with one another.

    Each rating of another rater makes a pair with the first one's rating of the same unit; units are resampled with all
    their pairs. Arguments as in `measure_raters`. `bias` and `spread` are the first rater's.
    """
    pair_counts = (~np.isnan(scores[0]) & ~np.isnan(scores[1:])).sum(axis=0)
    chosen = pair_counts > 0
    kinds = sums_of.count_kinds(levels[:, chosen], scores[:, chosen])
    every = scale_of(levels[:, chosen], scale)

    def measure(kinds: Kinds, weights: Floats) -> Measured:
        sides = sums_of.paired_sides(kinds)
        found: dict[str, Floats] = {}
        if every is not None:
            tables = sums_of.side_tables(sides, every, weights)
            found = _level_statistics(sums_of.side_level_sums(tables), every)
            found |= {name: cohen_kappa(tables, distance_weights(every, power)) for power, name in enumerate(_KAPPAS)}
        return found | _pair_statistics(sums_of.side_pairs(sides, weights))

    reasons = dict.fromkeys((*_LEVELS, *_KAPPAS), _too_many_levels()) if every is None else {}
    measures = _measure(kinds, measure, reasons, resample_count)
    return Agreement(int(chosen.sum()), int(pair_counts.sum()), measures)


def confusion_matrix(levels: Floats, scale: Floats) -> NDArray[np.int64]:
    """Confusion matrix of the first rater with each other one: (level, level), rows are the first one's.

    levels: (rater, unit), NaN where missing. scale: (level,), ascending, contains every value of levels.
    """
    is_pair = ~np.isnan(levels[0]) & ~np.isnan(levels[1:])
    others, places = np.nonzero(is_pair)
    own = np.searchsorted(scale, levels[0, places])
    other = np.searchsorted(scale, levels[1:][others, places])
    return np.bincount(own * scale.size + other, minlength=scale.size**2).reshape(scale.size, scale.size)


def scale_of(levels: Floats, scale: Floats) -> Floats | None:
    """All levels of the scale and of the ratings, ascending; None if there are too many to be levels."""
    every = np.unique(np.concatenate([scale, levels[~np.isnan(levels)]]))
    return every if every.size <= MOST_LEVELS else None


def _too_many_levels() -> str:
    return f"found more than {MOST_LEVELS} different scores, expected levels"


def _level_statistics(sums: LevelSums, scale: Floats) -> dict[str, Floats]:
    alphas = {f"alpha_{metric}": krippendorff_alpha(sums.coincidences, scale, metric) for metric in METRICS}
    return alphas | {
        "percent_agreement": sums.agreement,
        "fleiss_kappa": fleiss_kappa(sums.agreement, sums.shares),
        "gwet_ac1": gwet_ac1(sums.agreement, sums.shares),
    }


def _pair_statistics(pairs: correlation.Pairs) -> dict[str, Floats]:
    two_way = sums_of.pair_two_way_sums(pairs)
    one_way = sums_of.pair_one_way_sums(two_way)
    observed = 2.0 * pairs.sums(np.square(pairs.own - pairs.others))
    functions: dict[str, Callable[[correlation.Pairs], Floats]] = {
        "pearson": correlation.pearson,
        "spearman": correlation.spearman,
        "kendall_tau_b": correlation.kendall_tau_b,
        "rmse": correlation.root_mean_square_error,
        "bias": correlation.bias,
        "spread": correlation.spread,
    }
    found = {name: function(pairs) for name, function in functions.items()}
    return found | _score_statistics(observed, one_way, two_way)


def _score_statistics(observed: Floats, one_way: OneWaySums, two_way: TwoWaySums) -> dict[str, Floats]:
    """Score statistics for any number of raters. observed: (table,), see `interval_alpha`."""
    names = ("icc_1_1", "icc_1_k", *_COMPLETE)
    correlations = (*one_way_correlations(one_way), *two_way_correlations(two_way))
    alpha = interval_alpha(observed, one_way.ratings, one_way.total, one_way.squares)
    return {"alpha_interval": alpha, **dict(zip(names, correlations, strict=True))}


def _measure(
    kinds: Kinds, measure: Callable[[Kinds, Floats], Measured], reasons: Mapping[str, str], resample_count: int
) -> tuple[Measure, ...]:
    """Each statistic of the sample, with its interval from resamples.

    With more than `MOST_KINDS` kinds, a seeded sample of units is resampled instead, and the deviations are shrunk by
    the root of the sizes' ratio: the m out of n bootstrap (Bickel, Goetze and van Zwet 1997).
    """
    unit_count = int(kinds.counts.sum())
    points = measure(kinds, kinds.counts[None].astype(np.float64))
    if unit_count < 2:
        return tuple(_interval_of(name, points, {}, 1.0, reasons) for name in STATISTICS)
    resampled, shrinkage = kinds, 1.0
    centres: Measured = points
    if kinds.counts.size > MOST_KINDS:
        resampled = _sampled(kinds)
        shrinkage = sqrt(resampled.counts.sum() / unit_count)
        centres = measure(resampled, resampled.counts[None].astype(np.float64))
    weights = resample_counts(resampled.counts, resample_count=resample_count, seed=SEED).astype(np.float64)
    draws = measure(resampled, weights)
    shifted = {name: points[name] + (draws[name] - centres[name]) * shrinkage for name in draws}
    return tuple(_interval_of(name, points, shifted, shrinkage, reasons) for name in STATISTICS)


def _sampled(kinds: Kinds) -> Kinds:
    units = np.repeat(np.arange(kinds.counts.size), kinds.counts)
    drawn = np.random.default_rng(SEED).choice(units, MOST_KINDS, replace=False)
    places, counts = np.unique(drawn, return_counts=True)
    return Kinds(kinds.levels[:, places], kinds.scores[:, places], counts)


def _interval_of(name: str, points: Measured, draws: Measured, shrinkage: float, reasons: Mapping[str, str]) -> Measure:
    value = float(points[name][0]) if name in points else float("nan")
    if np.isnan(value):
        unknown = _UNDEFINED.get(name, "the ratings are all equal, or too few")
        return Measure(name, None, None, None, reasons.get(name, unknown))
    if name not in draws:
        return Measure(name, value, None, None, "one output has no interval")
    interval = percentile_interval(draws[name], LEVEL)
    if not interval.is_known:
        return Measure(name, value, None, None, _no_interval(draws[name]))
    interval = interval.clipped(_RANGES.get(name, _AT_MOST_ONE))  # a shrunk one can exceed the range
    return Measure(name, value, interval.low, interval.high, None)


def _no_interval(draws: Floats) -> str:
    if np.count_nonzero(~np.isnan(draws)) < LEAST_DEFINED * draws.size:
        return "more than 1 resample in 20 has none: too few or too equal ratings"
    return "all resamples are equal, which tells no width"
