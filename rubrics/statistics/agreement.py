"""Agreement of raters: all statistics at once, each with its interval, or null with the reason.

Kappa and the other categorical statistics use levels; correlations and errors use scores. Both are given as scores in
0..1: for a judge asked for probabilities, the score is their mean and the level their mode.

Units with the same ratings are one kind. The sums behind a statistic are computed for the sample and all its jackknife
parts at once: a part states how often it has each kind, and a sum is the product of these counts with the contribution
of one unit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.agreement_coefficients import (
    METRICS,
    MOST_PAIRS,
    OneWaySums,
    Pairs,
    TwoWaySums,
    bias,
    brennan_prediger,
    cohen_kappa,
    conger_kappa,
    distance_weights,
    fleiss_kappa,
    gwet_ac1,
    interval_alpha,
    kendall_tau_b,
    krippendorff_alpha,
    one_way_correlations,
    pearson,
    root_mean_square_error,
    spearman,
    spread,
    two_way_correlations,
)
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.reasons import Cause, Reason, reason_of
from gradebook.rubrics.statistics.resampling import Jackknife, Scale, jackknife_parts

Indices = NDArray[np.intp]
MOST_CELLS = 1_000_000  # of 8 bytes, in one product


@dataclass(frozen=True, slots=True)
class Kinds:
    """Units grouped by their ratings. levels, scores: (rater, kind), NaN where missing. counts: (kind,), units.

    of_units: (unit,), kind of each.
    """

    levels: Floats
    scores: Floats
    counts: NDArray[np.int64]
    of_units: NDArray[np.intp]

    def without_rater(self, rater: int) -> "Kinds":
        """The same kinds without the ratings of one rater."""
        is_kept = np.arange(len(self.scores)) != rater
        return Kinds(self.levels[is_kept], self.scores[is_kept], self.counts, self.of_units)


@dataclass(frozen=True, slots=True)
class LevelSums:
    """Sums for the statistics of levels, of each table.

    agreement: (table,), mean share of agreeing pairs. shares: (table, level). coincidences: (table, level, level).
    """

    agreement: Floats
    shares: Floats
    coincidences: Floats


def count_kinds(levels: Floats, scores: Floats) -> Kinds:
    """Group equal units. levels, scores: (rater, unit), NaN where missing, at the same positions."""
    keys = np.zeros(levels.shape[1], dtype=np.int64)
    for row in (*levels, *(score for level, score in zip(levels, scores, strict=True) if not _is_same(level, score))):
        values, codes = np.unique(np.where(np.isnan(row), -np.inf, row), return_inverse=True)
        _, keys = np.unique(keys * values.size + codes, return_inverse=True)
    _, first, of_units, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return Kinds(levels[:, first], scores[:, first], counts, of_units.ravel())


def _is_same(levels: Floats, scores: Floats) -> bool:
    """Whether a rater's scores equal the levels' scores, as is the case without probabilities."""
    return levels is scores or np.array_equal(levels, scores, equal_nan=True)


# -------- all raters among themselves
def level_sums(kinds: Kinds, scale: Floats, weights: Floats) -> LevelSums:
    """Sums over units with any number of ratings. scale: (level,). weights: (table, kind), how often each is drawn."""
    counts = (kinds.levels[:, :, None] == scale).sum(axis=0).astype(np.float64)  # (kind, level)
    sizes = counts.sum(axis=1)
    is_rated, is_paired = sizes > 0, sizes > 1
    partners = np.maximum(sizes - 1.0, 1.0)
    agreeing = (counts * (counts - 1.0)).sum(axis=1) / (np.maximum(sizes, 1.0) * partners) * is_paired
    shares = counts / np.maximum(sizes, 1.0)[:, None]
    rated = np.maximum(weights @ is_rated, 1e-300)
    paired = np.maximum(weights @ is_paired, 1e-300)
    shared = counts * (is_paired / partners)[:, None]
    if len(weights) == 1 or counts.size * scale.size > MOST_CELLS:  # the product below needs a table per kind
        coincidences = np.stack([(shared * row[:, None]).T @ counts for row in weights])
    else:
        coincidences = np.tensordot(weights, shared[:, :, None] * counts[:, None, :], axes=1)
    diagonal = np.einsum("kl,lm->klm", weights @ shared, np.eye(scale.size))
    return LevelSums((weights @ agreeing) / paired, (weights @ shares) / rated[:, None], coincidences - diagonal)


def rater_shares(kinds: Kinds, scale: Floats, weights: Floats) -> Floats:
    """Share of each level in each rater's ratings: (table, rater, level), NaN of a rater without ratings."""
    counts = np.stack([weights @ (levels[:, None] == scale).astype(np.float64) for levels in kinds.levels], axis=1)
    totals = counts.sum(axis=2, keepdims=True)
    shares: Floats = np.divide(counts, totals, out=np.full_like(counts, np.nan), where=totals > 0)
    return shares


def one_way_sums(kinds: Kinds, weights: Floats) -> OneWaySums:
    """Sums over the units with two or more ratings."""
    chosen = (~np.isnan(kinds.scores)).sum(axis=0) > 1
    scores, drawn = _centred(kinds.scores)[:, chosen], weights[:, chosen]
    sizes = (~np.isnan(scores)).sum(axis=0).astype(np.float64)
    totals, squares = np.nansum(scores, axis=0), np.nansum(np.square(scores), axis=0)
    terms = (np.ones_like(sizes), sizes, np.square(sizes), totals, squares, np.square(totals) / np.maximum(sizes, 1.0))
    return OneWaySums(*(drawn @ term for term in terms))


def two_way_sums(kinds: Kinds, weights: Floats) -> TwoWaySums:
    """Sums over the units that every rater rated."""
    chosen = ~np.isnan(kinds.scores).any(axis=0)
    scores, drawn = _centred(kinds.scores)[:, chosen], weights[:, chosen]
    between = np.square(scores.sum(axis=0)) / len(scores)
    squares = np.square(scores).sum(axis=0)
    return TwoWaySums(drawn.sum(axis=1), drawn @ scores.T, drawn @ squares, drawn @ between)


def squared_differences(kinds: Kinds, weights: Floats) -> Floats:
    """Observed disagreement for `interval_alpha`, (table,), over the units with two or more ratings."""
    chosen = (~np.isnan(kinds.scores)).sum(axis=0) > 1
    scores = _centred(kinds.scores)[:, chosen]
    sizes = (~np.isnan(scores)).sum(axis=0)
    totals, squares = np.nansum(scores, axis=0), np.nansum(np.square(scores), axis=0)
    disagreement: Floats = 2.0 * (sizes * squares - np.square(totals)) / np.maximum(sizes - 1, 1)
    return weights[:, chosen] @ disagreement


def _centred(scores: Floats) -> Floats:
    """Scores minus their mean: sums of squares of equal scores are then equal, without rounding errors."""
    known_count = int(np.count_nonzero(~np.isnan(scores)))
    centred: Floats = scores - float(np.nansum(scores)) / max(1, known_count)
    return centred


# -------- one side against the other
@dataclass(frozen=True, slots=True)
class Sides:
    """Pairs of the first rater with each of the others, unit by unit. All arrays: (pair,), except counts (kind,)."""

    kinds: Indices  # kind of the pair's unit
    own_levels: Floats
    other_levels: Floats
    own_scores: Floats
    other_scores: Floats
    counts: NDArray[np.int64]


def paired_sides(kinds: Kinds) -> Sides:
    """Pair the first rater of each kind of unit with each other rater."""
    raters, kind_indices = np.nonzero(~np.isnan(kinds.scores[0]) & ~np.isnan(kinds.scores[1:]))
    return Sides(
        kind_indices,
        kinds.levels[0, kind_indices],
        kinds.levels[1:][raters, kind_indices],
        kinds.scores[0, kind_indices],
        kinds.scores[1:][raters, kind_indices],
        kinds.counts,
    )


def side_tables(sides: Sides, scale: Floats, weights: Floats) -> Floats:
    """Counts of the own level by the other one: (table, level, level)."""
    own_indices, other_indices = (np.searchsorted(scale, levels) for levels in (sides.own_levels, sides.other_levels))
    cells = _weighed(weights, sides.kinds, own_indices * scale.size + other_indices, scale.size**2)
    return cells.reshape(-1, scale.size, scale.size)


def side_level_sums(tables: Floats) -> LevelSums:
    """Sums as in `level_sums`, with each pair as a unit. tables: (table, level, level)."""
    totals = np.maximum(tables.sum(axis=(1, 2)), 1e-300)
    shares = (tables.sum(axis=1) + tables.sum(axis=2)) / (2.0 * totals[:, None])
    coincidences = tables + tables.transpose(0, 2, 1)
    return LevelSums(np.trace(tables, axis1=1, axis2=2) / totals, shares, coincidences)


def side_pairs(sides: Sides, weights: Floats) -> Pairs:
    """Distinct pairs of scores, with their frequency in each weighting."""
    scores = np.stack([sides.own_scores, sides.other_scores])
    distinct, indices = np.unique(scores, axis=1, return_inverse=True)
    return Pairs(distinct[0], distinct[1], _weighed(weights, sides.kinds, indices.ravel(), distinct.shape[1]))


def pair_two_way_sums(pairs: Pairs) -> TwoWaySums:
    """Sums as in `two_way_sums`, with each pair as a unit of two raters."""
    units = pairs.weights.sum(axis=1)
    own_scores, other_scores = _centred(np.stack([pairs.own, pairs.others]))
    of_raters = np.stack([pairs.sums(own_scores), pairs.sums(other_scores)], axis=1)
    squares = pairs.sums(np.square(own_scores) + np.square(other_scores))
    return TwoWaySums(units, of_raters, squares, pairs.sums(np.square(own_scores + other_scores) / 2.0))


def pair_one_way_sums(sums: TwoWaySums) -> OneWaySums:
    """Convert to one-way sums, which ignore who rated."""
    return OneWaySums(
        sums.units, 2.0 * sums.units, 4.0 * sums.units, sums.of_raters.sum(axis=1), sums.squares, sums.between
    )


def _weighed(weights: Floats, kinds: Indices, cells: Indices, cell_count: int) -> Floats:
    """How often each cell is drawn: (table, cell). kinds, cells: (pair,), kind and cell of each pair."""
    if len(weights) == 1 or weights.shape[1] * cell_count > MOST_CELLS:
        cell_counts = [np.bincount(cells, weights=row[kinds], minlength=cell_count) for row in weights]
        return np.stack(cell_counts).astype(np.float64)
    counts = np.bincount(kinds * cell_count + cells, minlength=weights.shape[1] * cell_count)
    return weights @ counts.reshape(weights.shape[1], cell_count).astype(np.float64)


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
_UNDEFINED = {
    **dict.fromkeys(_CORRELATIONS, Cause.SIDE_EQUAL),
    "spread": Cause.OTHER_SIDE_EQUAL,
    **dict.fromkeys(("icc_1_k", "icc_3_k"), Cause.OUTPUT_MEANS_EQUAL),
    "icc_2_k": Cause.OUTPUT_MEANS_ALIKE,
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
    """One statistic. value, ci_low, ci_high: None if undefined.

    reason: why one of them is undefined; a text if a table or the caller gave it.

    n: units that the statistic uses, None if unknown; those of `_COMPLETE` use only units that every rater rated.
    """

    statistic: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    reason: Reason | str | None
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

    levels, scores: (rater, unit), in [0, 1], NaN where missing, at the same positions. scale: scores of the existing
    levels, used or not. cases: (unit,), case of each; None: each unit is a case of its own. The intervals are of these
    raters over cases; those of ICC(2,.) also of raters like these.
    """
    sizes = (~np.isnan(scores)).sum(axis=0)
    every, is_two = scale_of(levels, scale), len(levels) == 2

    def measure(kinds: Kinds, weights: Floats) -> Measured:
        statistics: dict[str, Floats] = {}
        if every is not None:
            sums = level_sums(kinds, every, weights)
            statistics = _level_statistics(sums, every)
            statistics["conger_kappa"] = conger_kappa(sums.agreement, rater_shares(kinds, every, weights))
        one_way = one_way_sums(kinds, weights)
        observed = squared_differences(kinds, weights)
        statistics |= _score_statistics(observed, one_way, two_way_sums(kinds, weights))
        if not is_two:
            return statistics
        sides = _side_statistics(kinds, weights, every)
        return statistics | {name: sides[name] for name in (*_KAPPAS, *_CORRELATIONS, "rmse") if name in sides}

    reasons = dict.fromkeys((*_LEVELS, *_KAPPAS), too_many_levels()) if every is None else {}
    if not is_two:
        reasons |= dict.fromkeys((*_KAPPAS, *_SIDES), reason_of(Cause.NOT_TWO_RATERS, rater_count=len(levels)))
    reasons |= dict.fromkeys(("bias", "spread"), Reason(Cause.ONE_AGAINST_OTHERS))
    complete_count = int((sizes == len(levels)).sum())
    if complete_count < 2:
        reasons |= dict.fromkeys(_COMPLETE, Reason(Cause.FEW_COMPLETE))
    chosen = sizes > 0
    kinds = count_kinds(levels[:, chosen], scores[:, chosen])
    n = int((sizes > 1).sum())
    measures = _measure(kinds, measure, reasons, n, None if cases is None else np.asarray(cases)[chosen])
    measures = tuple(
        replace(measured, n=complete_count) if measured.statistic in _COMPLETE else measured for measured in measures
    )
    return Agreement(n, int((sizes * (sizes - 1) // 2).sum()), measures)


def measure_sides(levels: Floats, scores: Floats, scale: Floats, cases: ArrayLike | None = None) -> Agreement:
    """Measure the agreement of the first rater with the others, who are not compared with one another.

    Each rating of another rater makes a pair with the first one's rating of the same unit; a case is left out with all
    its pairs. Arguments as in `measure_raters`. `bias` and `spread` are the first rater's.
    """
    pair_counts = (~np.isnan(scores[0]) & ~np.isnan(scores[1:])).sum(axis=0)
    chosen = pair_counts > 0
    kinds = count_kinds(levels[:, chosen], scores[:, chosen])
    every = scale_of(levels[:, chosen], scale)

    def measure(kinds: Kinds, weights: Floats) -> Measured:
        return _side_statistics(kinds, weights, every)

    reasons = dict.fromkeys((*_LEVELS, *_KAPPAS), too_many_levels()) if every is None else {}
    n = int(chosen.sum())
    measures = _measure(kinds, measure, reasons, n, None if cases is None else np.asarray(cases)[chosen])
    return Agreement(n, int(pair_counts.sum()), measures)


def confusion_matrix(levels: Floats, scale: Floats) -> NDArray[np.int64]:
    """Confusion matrix of the first rater with each other one: (level, level), rows are the first one's.

    levels: (rater, unit), NaN where missing. scale: (level,), ascending, contains every value of levels.
    """
    is_pair = ~np.isnan(levels[0]) & ~np.isnan(levels[1:])
    raters, units = np.nonzero(is_pair)
    own_indices = np.searchsorted(scale, levels[0, units])
    other_indices = np.searchsorted(scale, levels[1:][raters, units])
    return np.bincount(own_indices * scale.size + other_indices, minlength=scale.size**2).reshape(
        scale.size, scale.size
    )


def scale_of(levels: Floats, scale: Floats) -> Floats | None:
    """All levels of the scale and of the ratings, ascending; None if there are too many to be levels."""
    every = np.unique(np.concatenate([scale, levels[~np.isnan(levels)]]))
    return every if every.size <= MOST_LEVELS else None


def too_many_levels() -> Reason:
    """Reason why scores are no levels."""
    return reason_of(Cause.MANY_LEVELS, most=MOST_LEVELS)


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
    sides = paired_sides(kinds)
    statistics: dict[str, Floats] = {}
    if every is not None:
        tables = side_tables(sides, every, weights)
        statistics = _level_statistics(side_level_sums(tables), every)
        statistics |= {name: cohen_kappa(tables, distance_weights(every, power)) for power, name in enumerate(_KAPPAS)}
        statistics["conger_kappa"] = statistics["cohen_kappa"]  # of two sides they are the same
    return statistics | _pair_statistics(side_pairs(sides, weights))


def _pair_statistics(pairs: Pairs) -> dict[str, Floats]:
    two_way = pair_two_way_sums(pairs)
    one_way = pair_one_way_sums(two_way)
    observed = 2.0 * pairs.sums(np.square(pairs.own - pairs.others))
    functions: dict[str, Callable[[Pairs], Floats]] = {
        "pearson": pearson,
        "spearman": spearman,
        "kendall_tau_b": kendall_tau_b,
        "rmse": root_mean_square_error,
        "bias": bias,
        "spread": spread,
    }
    statistics = {name: function(pairs) for name, function in functions.items()}
    return statistics | _score_statistics(observed, one_way, two_way)


def _score_statistics(observed: Floats, one_way: OneWaySums, two_way: TwoWaySums) -> dict[str, Floats]:
    """Score statistics for any number of raters. observed: (table,), see `interval_alpha`."""
    names = ("icc_1_1", "icc_1_k", *_COMPLETE)
    correlations = (*one_way_correlations(one_way), *two_way_correlations(two_way))
    alpha = interval_alpha(observed, one_way.ratings, one_way.total, one_way.squares)
    return {"alpha_interval": alpha, **dict(zip(names, correlations, strict=True))}


def _measure(
    kinds: Kinds,
    measure: Callable[[Kinds, Floats], Measured],
    reasons: Mapping[str, Reason],
    n: int,
    cases: NDArray[Any] | None,
) -> tuple[Measure, ...]:
    """Each statistic of the sample, with its interval from the sample without each case in turn."""
    sample, parts = kinds.counts[None].astype(np.float64), jackknife_parts(kinds.of_units, cases)
    if parts.group_count > 1 and kinds.counts.size <= MOST_TOGETHER:
        every = measure(kinds, np.concatenate([sample, parts.weights]))
        points: Measured = {name: values[:1] for name, values in every.items()}
        without_cases: Measured = {name: values[1:] for name, values in every.items()}
    else:
        points = measure(kinds, sample)
        without_cases = measure(kinds, parts.weights) if parts.group_count > 1 else {}
    raters: list[tuple[Floats, ...]] = []
    if len(kinds.scores) > 2 and _OF_RATER_SAMPLE[0] in points:  # of a pair, none can be left out
        subsets = (kinds.without_rater(rater) for rater in range(len(kinds.scores)))
        raters = [two_way_correlations(two_way_sums(subset, sample)) for subset in subsets]
    few = {least: too_few_for_chance(kinds, cases, least) for least in (LEAST_CASES, *LEAST_CASES_OF.values())}
    measures = []
    for name in STATISTICS:
        value = float(points[name][0]) if name in points else float("nan")
        if np.isnan(value):
            unknown = Reason(_UNDEFINED.get(name, Cause.EQUAL_OR_FEW))
            measures.append(Measure(name, None, None, None, reasons.get(name, unknown), n))
            continue
        if name not in without_cases:
            measures.append(Measure(name, value, None, None, Reason(Cause.ONE_CASE), n))
            continue
        too_few = few[LEAST_CASES_OF.get(name, LEAST_CASES)]
        if too_few is not None and name not in _FREE_OF_CHANCE:
            measures.append(Measure(name, value, None, None, too_few, n))
            continue
        jackknife = Jackknife(value, parts, without_cases[name], _SCALES.get(name, Scale.AT_MOST_ONE))
        if name in _OF_RATER_SAMPLE:
            index = _COMPLETE.index(name)
            jackknife = jackknife.with_raters(np.array([float(rater[index][0]) for rater in raters]))
        interval, reason = jackknife.interval()
        if name == "kendall_tau_b" and np.isnan(without_cases[name]).all():
            reason = reason_of(Cause.MANY_PAIRS, most=MOST_PAIRS)
        ends = (interval.low, interval.high) if reason is None else (None, None)
        measures.append(Measure(name, value, ends[0], ends[1], reason, n))
    return tuple(measures)


def too_few_for_chance(kinds: Kinds, cases: NDArray[Any] | None, least: int = LEAST_CASES) -> Reason | None:
    """Reason why a chance-corrected figure has no interval: too few cases, or too few with another value."""
    codes = np.arange(kinds.of_units.size) if cases is None else cases
    case_count = np.unique(codes).size
    if case_count < least:
        return reason_of(Cause.FEW_CASES, case_count=case_count, least=least)
    values, counts = np.unique(kinds.scores[~np.isnan(kinds.scores)], return_inverse=True)
    ratings = (~np.isnan(kinds.scores)) * kinds.counts
    totals = np.bincount(counts.ravel(), weights=ratings[~np.isnan(kinds.scores)])
    share, commonest = totals.max() / totals.sum(), values[totals.argmax()]
    is_varied = ((kinds.scores != commonest) & ~np.isnan(kinds.scores)).any(axis=0)
    varied_count = np.unique(codes[is_varied[kinds.of_units]]).size
    if share <= MOST_EQUAL or varied_count >= LEAST_VARIED:
        return None
    return reason_of(
        Cause.MOSTLY_EQUAL,
        share=float(share),
        varied_count=int(varied_count),
        case_count=int(case_count),
        least=LEAST_VARIED,
    )
