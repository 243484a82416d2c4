"""Agreement of raters: all statistics at once, each with its interval, or null with the reason.

Kappa and the other categorical statistics use levels; correlations and errors use scores. Both are given as scores in
0..1: for a judge asked for probabilities, the score is their mean and the level their mode.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics import agreement_sums as sums_of
from gradebook.rubrics.statistics import correlation
from gradebook.rubrics.statistics.agreement_sums import Kinds, LevelSums
from gradebook.rubrics.statistics.alpha import METRICS, interval_alpha, krippendorff_alpha
from gradebook.rubrics.statistics.icc import OneWaySums, TwoWaySums, one_way_correlations, two_way_correlations
from gradebook.rubrics.statistics.jackknife import Jackknife, Scale, jackknife_parts
from gradebook.rubrics.statistics.kappa import (
    brennan_prediger,
    cohen_kappa,
    conger_kappa,
    distance_weights,
    fleiss_kappa,
    gwet_ac1,
)

MOST_LEVELS = 20  # more distinct values are not levels
LEAST_CASES = 8  # of an interval of a chance-corrected figure
LEAST_CASES_OF = {"fleiss_kappa": 20}  # whose intervals cover 90 and 92% with 8 and 10 cases
# Where more than this share of the ratings is one value, so many cases have to have another one.
MOST_EQUAL, LEAST_VARIED = 0.75, 25
MOST_TOGETHER = 200  # kinds of units: the sample and its parts are then measured in one call

_LEVELS = (
    "percent_agreement",
    "fleiss_kappa",
    "conger_kappa",
    "brennan_prediger",
    "gwet_ac1",
    "alpha_nominal",
    "alpha_ordinal",
)
_KAPPAS = ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic")
_SCORES = ("alpha_interval", "icc_1_1", "icc_1_k")
_COMPLETE = ("icc_2_1", "icc_2_k", "icc_3_1", "icc_3_k")
_CORRELATIONS = ("pearson", "spearman", "kendall_tau_b")
_SIDES = (*_CORRELATIONS, "rmse", "bias", "spread")
_OF_RATER_SAMPLE = ("icc_2_1", "icc_2_k")
_OF_ONE = "it is of one rater against the others"
_UNDEFINED = {
    **dict.fromkeys(_CORRELATIONS, "the ratings of one side are all equal"),
    "spread": "the other side's ratings are all equal",
    **dict.fromkeys(("icc_1_k", "icc_3_k"), "the outputs' mean ratings are all equal, or too few"),
    "icc_2_k": "the outputs' mean ratings differ too little beside the raters' errors, or are too few",
}
_FREE_OF_CHANCE = (
    "percent_agreement",
    "rmse",
    "bias",
    "gwet_ac1",
    "brennan_prediger",
)  # known of few and of equal ratings too
# Scales on which a statistic is nearly normal; the others are at most 1.
_SCALES = {
    "percent_agreement": Scale.RATE,
    "rmse": Scale.SCORE,
    "bias": Scale.DIFFERENCE,
    "spread": Scale.RATIO,
    **dict.fromkeys(_CORRELATIONS, Scale.CORRELATION),
    **dict.fromkeys((*_KAPPAS, "fleiss_kappa", "conger_kappa", "brennan_prediger", "gwet_ac1"), Scale.KAPPA),
}
STATISTICS = (
    *("percent_agreement", *_KAPPAS, "fleiss_kappa", "conger_kappa", "brennan_prediger", "gwet_ac1"),
    *("alpha_nominal", "alpha_ordinal", "alpha_interval"),
    *("icc_1_1", "icc_2_1", "icc_3_1", "icc_1_k", "icc_2_k", "icc_3_k"),
    *_SIDES,
)


@dataclass(frozen=True, slots=True)
class Measure:
    """One statistic. value, ci_low, ci_high: None if undefined; reason: why one of them is.

    n: units that it uses, None if unknown; the statistics of `_COMPLETE` use only those that every rater rated.
    """

    statistic: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    reason: str | None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """All statistics over n units with at least one pair of ratings; pair_count: number of pairs."""

    n: int
    pair_count: int
    measures: tuple[Measure, ...]


Measured = Mapping[str, Floats]


def measure_raters(levels: Floats, scores: Floats, scale: Floats, cases: ArrayLike | None = None) -> Agreement:
    """Measure the agreement of raters among themselves. Two raters are also treated as two sides.

    levels, scores: (rater, unit), in [0, 1], NaN where missing, at the same places. scale: scores of the existing
    levels, used or not. cases: (unit,), case of each; None: each unit is a case of its own. The intervals are of these
    raters over cases; those of ICC(2,.) also of raters like these.
    """
    sizes = (~np.isnan(scores)).sum(axis=0)
    every, is_two = scale_of(levels, scale), len(levels) == 2

    def measure(kinds: Kinds, weights: Floats) -> Measured:
        found: dict[str, Floats] = {}
        if every is not None:
            sums = sums_of.level_sums(kinds, every, weights)
            found = _level_statistics(sums, every)
            found["conger_kappa"] = conger_kappa(sums.agreement, sums_of.rater_shares(kinds, every, weights))
        one_way = sums_of.one_way_sums(kinds, weights)
        observed = sums_of.squared_differences(kinds, weights)
        found |= _score_statistics(observed, one_way, sums_of.two_way_sums(kinds, weights))
        if not is_two:
            return found
        sides = _side_statistics(kinds, weights, every)
        return found | {name: sides[name] for name in (*_KAPPAS, *_CORRELATIONS, "rmse") if name in sides}

    reasons = dict.fromkeys((*_LEVELS, *_KAPPAS), _too_many_levels()) if every is None else {}
    if not is_two:
        reasons |= dict.fromkeys((*_KAPPAS, *_SIDES), f"it is of two raters, found {len(levels)}")
    reasons |= dict.fromkeys(("bias", "spread"), _OF_ONE)
    complete_count = int((sizes == len(levels)).sum())
    if complete_count < 2:
        reasons |= dict.fromkeys(_COMPLETE, "fewer than 2 outputs were rated by every rater")
    chosen = sizes > 0
    kinds = sums_of.count_kinds(levels[:, chosen], scores[:, chosen])
    n = int((sizes > 1).sum())
    measures = _measure(kinds, measure, reasons, n, None if cases is None else np.asarray(cases)[chosen])
    measures = tuple(replace(each, n=complete_count) if each.statistic in _COMPLETE else each for each in measures)
    return Agreement(n, int((sizes * (sizes - 1) // 2).sum()), measures)


def measure_sides(levels: Floats, scores: Floats, scale: Floats, cases: ArrayLike | None = None) -> Agreement:
    """Measure the agreement of the first rater with the others, who are not compared with one another.

    Each rating of another rater makes a pair with the first one's rating of the same unit; a case is left out with all
    its pairs. Arguments as in `measure_raters`. `bias` and `spread` are the first rater's.
    """
    pair_counts = (~np.isnan(scores[0]) & ~np.isnan(scores[1:])).sum(axis=0)
    chosen = pair_counts > 0
    kinds = sums_of.count_kinds(levels[:, chosen], scores[:, chosen])
    every = scale_of(levels[:, chosen], scale)

    def measure(kinds: Kinds, weights: Floats) -> Measured:
        return _side_statistics(kinds, weights, every)

    reasons = dict.fromkeys((*_LEVELS, *_KAPPAS), _too_many_levels()) if every is None else {}
    n = int(chosen.sum())
    measures = _measure(kinds, measure, reasons, n, None if cases is None else np.asarray(cases)[chosen])
    return Agreement(n, int(pair_counts.sum()), measures)


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
        "brennan_prediger": brennan_prediger(sums.agreement, scale.size),
    }


def _side_statistics(kinds: Kinds, weights: Floats, every: Floats | None) -> dict[str, Floats]:
    """All statistics of the first rater's pairs. every: (level,), None if the scores are not levels."""
    sides = sums_of.paired_sides(kinds)
    found: dict[str, Floats] = {}
    if every is not None:
        tables = sums_of.side_tables(sides, every, weights)
        found = _level_statistics(sums_of.side_level_sums(tables), every)
        found |= {name: cohen_kappa(tables, distance_weights(every, power)) for power, name in enumerate(_KAPPAS)}
        found["conger_kappa"] = found["cohen_kappa"]  # of two sides they are the same
    return found | _pair_statistics(sums_of.side_pairs(sides, weights))


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
    kinds: Kinds,
    measure: Callable[[Kinds, Floats], Measured],
    reasons: Mapping[str, str],
    n: int,
    cases: NDArray[Any] | None,
) -> tuple[Measure, ...]:
    """Each statistic of the sample, with its interval from the sample without each case in turn."""
    whole, parts = kinds.counts[None].astype(np.float64), jackknife_parts(kinds.of_units, cases)
    if parts.group_count > 1 and kinds.counts.size <= MOST_TOGETHER:
        every = measure(kinds, np.concatenate([whole, parts.weights]))
        points: Measured = {name: each[:1] for name, each in every.items()}
        without_cases: Measured = {name: each[1:] for name, each in every.items()}
    else:
        points = measure(kinds, whole)
        without_cases = measure(kinds, parts.weights) if parts.group_count > 1 else {}
    raters: list[tuple[Floats, ...]] = []
    if len(kinds.scores) > 2 and _OF_RATER_SAMPLE[0] in points:  # of a pair, none can be left out
        left = (kinds.without_rater(place) for place in range(len(kinds.scores)))
        raters = [two_way_correlations(sums_of.two_way_sums(each, whole)) for each in left]
    few = {least: too_few_for_chance(kinds, cases, least) for least in (LEAST_CASES, *LEAST_CASES_OF.values())}
    found = []
    for name in STATISTICS:
        value = float(points[name][0]) if name in points else float("nan")
        if np.isnan(value):
            unknown = _UNDEFINED.get(name, "the ratings are all equal, or too few")
            found.append(Measure(name, None, None, None, reasons.get(name, unknown), n))
            continue
        if name not in without_cases:
            found.append(Measure(name, value, None, None, "one case has no interval", n))
            continue
        too_few = few[LEAST_CASES_OF.get(name, LEAST_CASES)]
        if too_few is not None and name not in _FREE_OF_CHANCE:
            found.append(Measure(name, value, None, None, too_few, n))
            continue
        jackknife = Jackknife(value, parts, without_cases[name], _SCALES.get(name, Scale.AT_MOST_ONE))
        if name in _OF_RATER_SAMPLE:
            place = _COMPLETE.index(name)
            jackknife = jackknife.with_raters(np.array([float(each[place][0]) for each in raters]))
        interval, reason = jackknife.interval()
        if name == "kendall_tau_b" and np.isnan(without_cases[name]).all():
            reason = f"found more than {correlation.MOST_PAIRS:,} different pairs: an interval would take too long"
        known = (interval.low, interval.high) if reason is None else (None, None)
        found.append(Measure(name, value, known[0], known[1], reason, n))
    return tuple(found)


def too_few_for_chance(kinds: Kinds, cases: NDArray[Any] | None, least: int = LEAST_CASES) -> str | None:
    """Reason why a chance-corrected figure has no interval: too few cases, or too few with another value."""
    codes = np.arange(kinds.of_units.size) if cases is None else cases
    case_count = np.unique(codes).size
    if case_count < least:
        return f"found {counted(case_count, 'case')}, expected {least} or more for an interval"
    values, counts = np.unique(kinds.scores[~np.isnan(kinds.scores)], return_inverse=True)
    ratings = (~np.isnan(kinds.scores)) * kinds.counts
    totals = np.bincount(counts.ravel(), weights=ratings[~np.isnan(kinds.scores)])
    share, commonest = totals.max() / totals.sum(), values[totals.argmax()]
    is_varied = ((kinds.scores != commonest) & ~np.isnan(kinds.scores)).any(axis=0)
    varied_count = np.unique(codes[is_varied[kinds.of_units]]).size
    if share <= MOST_EQUAL or varied_count >= LEAST_VARIED:
        return None
    return (
        f"{share:.0%} of the ratings are equal, and {varied_count} of {case_count} cases have another one: expected "
        f"{LEAST_VARIED} or more for an interval"
    )
