"""Comparison of one rater with others, and of a judge with people; each figure with its interval over cases.

A judge with people: agreement with the judge's gaps counted, and whether the judge agrees with people as they do.
The second figure replaces a person by the judge, as the alternative annotator test does (Calderon, Reichart and Dror
2025), on agreement beyond chance: a judge that gives one level to everything often has the same level as people.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.agreement import (
    MOST_LEVELS,
    Kinds,
    Measure,
    count_kinds,
    one_way_sums,
    pair_one_way_sums,
    pair_two_way_sums,
    paired_sides,
    side_pairs,
    squared_differences,
    too_few_for_chance,
    too_many_levels,
)
from gradebook.rubrics.statistics.agreement_coefficients import interval_alpha
from gradebook.rubrics.statistics.arrays import Floats, cluster_sums
from gradebook.rubrics.statistics.reasons import Cause, Reason
from gradebook.rubrics.statistics.resampling import Jackknife, Parts, Scale, jackknife_parts

WITH_GAPS, OVER_PEOPLE = "percent_agreement_with_gaps", "alpha_over_people"
JUDGE_STATISTICS = (WITH_GAPS, OVER_PEOPLE)


def agreement_with_gaps(levels: Floats, is_gap: NDArray[np.bool_], cases: ArrayLike) -> Measure:
    """Share of pairs with the same level, where an output that the judge left unscored counts as disagreement.

    levels: (rater, output), the judge's first, NaN where missing. is_gap: (output,), asked and left unscored. cases:
    (output,).
    """
    is_asked = ~np.isnan(levels[0]) | is_gap
    pairs = (~np.isnan(levels[1:]) & is_asked).sum(axis=0).astype(np.float64)
    same = (levels[1:] == levels[0]).sum(axis=0).astype(np.float64)
    chosen = pairs > 0
    n = int(chosen.sum())
    if not n:
        return Measure(WITH_GAPS, None, None, None, Reason(Cause.NO_PAIRS), n)
    codes = np.asarray(cases)[chosen]
    same_sums, pair_sums = (cluster_sums(counts[chosen], codes)[0] for counts in (same, pairs))
    value, group_count = float(same_sums.sum() / pair_sums.sum()), same_sums.size
    if group_count < 2:
        return Measure(WITH_GAPS, value, None, None, Reason(Cause.ONE_CASE), n)
    parts = Parts(np.empty((group_count, 0)), np.ones(group_count), group_count)
    without = (same_sums.sum() - same_sums) / (pair_sums.sum() - pair_sums)
    return _jackknife_measure(WITH_GAPS, Jackknife(value, parts, without, Scale.RATE), n)


def alpha_over_people(scores: Floats, cases: ArrayLike) -> Measure:
    """Krippendorff's alpha (interval) of the judge with each person, minus that of people with each other.

    scores: (rater, output), the judge's first, NaN where missing. Of outputs that the judge and two people scored.
    """
    is_complete = ~np.isnan(scores[0]) & ((~np.isnan(scores[1:])).sum(axis=0) > 1)
    n = int(is_complete.sum())
    if n < 2:
        return Measure(OVER_PEOPLE, None, None, None, Reason(Cause.FEW_WITH_PEOPLE), n)
    codes = np.asarray(cases)[is_complete]
    kinds = count_kinds(scores[:, is_complete], scores[:, is_complete])
    value = float(_difference(kinds, kinds.counts[None].astype(np.float64))[0])
    if np.isnan(value):
        return Measure(OVER_PEOPLE, None, None, None, Reason(Cause.EQUAL_OR_FEW), n)
    few = too_few_for_chance(kinds, codes)
    if few is not None:
        return Measure(OVER_PEOPLE, value, None, None, few, n)
    parts = jackknife_parts(kinds.of_units, codes)
    return _jackknife_measure(OVER_PEOPLE, Jackknife(value, parts, _difference(kinds, parts.weights), Scale.ANY), n)


def _difference(kinds: Kinds, weights: Floats) -> Floats:
    pairs = side_pairs(paired_sides(kinds), weights)
    judge = pair_one_way_sums(pair_two_way_sums(pairs))
    of_judge = 2.0 * pairs.sums(np.square(pairs.own - pairs.others))
    people = kinds.without_rater(0)
    among = one_way_sums(people, weights)
    of_people = squared_differences(people, weights)
    difference: Floats = interval_alpha(of_judge, judge.ratings, judge.total, judge.squares) - interval_alpha(
        of_people, among.ratings, among.total, among.squares
    )
    return difference


def _jackknife_measure(name: str, jackknife: Jackknife, n: int) -> Measure:
    interval, reason = jackknife.interval()
    if reason is not None:
        return Measure(name, jackknife.value, None, None, reason, n)
    return Measure(name, jackknife.value, interval.low, interval.high, None, n)


_SCALES = {
    "percent_agreement": Scale.RATE,
    "alpha_interval": Scale.AT_MOST_ONE,
    "mean_difference": Scale.DIFFERENCE,
}


@dataclass(frozen=True, slots=True)
class RaterComparison:
    """n: units that the rater and another one rated; pair_count: pairs of their ratings.

    agreement: share (0..1) of pairs with the same level. alpha: Krippendorff's, of the scores in these pairs; chance is
    that of each criterion. difference: mean over units of the rater's score minus the others' mean.
    """

    n: int
    pair_count: int
    agreement: Measure
    alpha: Measure
    difference: Measure


def compare_rater(
    own: Floats, others: Floats, criteria: NDArray[np.int64], cases: NDArray[np.int64]
) -> RaterComparison:
    """Compare one rater's scores with those of the others. A unit is an output on a criterion.

    own: (unit,), others: (rater, unit), in [0, 1], NaN where missing. criteria, cases: (unit,), numbers of each.
    """
    chosen = ~np.isnan(own) & ~np.isnan(others).all(axis=0)
    own, others, criteria, cases = own[chosen], others[:, chosen], criteria[chosen], cases[chosen]
    has_pair = ~np.isnan(others)
    pairs = has_pair.sum(axis=0).astype(np.float64)
    differences = np.where(has_pair, own - others, 0.0)
    equal = (has_pair & (differences == 0.0)).sum(axis=0).astype(np.float64)
    # Sums of both ratings of each pair, and of the squared differences in both directions.
    sums = pairs * own + np.where(has_pair, others, 0.0).sum(axis=0)
    squares = pairs * np.square(own) + np.where(has_pair, np.square(others), 0.0).sum(axis=0)
    observed = 2.0 * np.square(differences).sum(axis=0)
    of_criteria = [criteria == code for code in np.unique(criteria)]
    is_level = np.ones(own.size, dtype=np.bool_)
    shifted = np.vstack([own, others])
    for of_one in of_criteria:
        values, counts = np.unique(shifted[:, of_one][~np.isnan(shifted[:, of_one])], return_counts=True)
        is_level[of_one] = values.size <= MOST_LEVELS
        shifted[:, of_one] -= values[counts.argmax()]  # the commonest value of each criterion is 0

    def measure(weights: Floats) -> dict[str, Floats]:
        expected = np.zeros(len(weights))
        for of_one in of_criteria:
            part = weights[:, of_one]
            count, total = 2.0 * part @ pairs[of_one], part @ sums[of_one]
            spread = np.maximum(count * (part @ squares[of_one]) - np.square(total), 0.0)
            expected += 2.0 * spread / np.maximum(count - 1.0, 1.0)
        return {
            "percent_agreement": _ratio(weights @ (equal * is_level), weights @ (pairs * is_level)),
            "alpha_interval": 1.0 - _ratio(weights @ observed, np.where(expected > 1e-12, expected, 0.0)),
            "mean_difference": _ratio(weights @ (differences.sum(axis=0) / pairs), weights.sum(axis=1)),
        }

    few = too_few_for_chance(count_kinds(shifted, shifted), cases) if own.size else None
    sample, parts = measure(np.ones((1, own.size))), jackknife_parts(np.arange(own.size), cases)
    without_cases = measure(parts.weights) if parts.group_count > 1 else {}
    undefined = {"percent_agreement": too_many_levels(), "alpha_interval": Reason(Cause.RATINGS_EQUAL)}
    measures = {
        name: _case_measure(name, float(sample[name][0]), without_cases.get(name), parts, undefined.get(name), few)
        for name in _SCALES
    }
    return RaterComparison(int(own.size), int(pairs.sum()), *measures.values())


def _case_measure(
    name: str,
    value: float,
    without_cases: Floats | None,
    parts: Parts,
    undefined: Reason | None,
    few: Reason | None,
) -> Measure:
    n = parts.weights.shape[1]
    if not n:
        return Measure(name, None, None, None, Reason(Cause.NO_OTHER_RATER), n)
    if np.isnan(value):
        return Measure(name, None, None, None, undefined, n)
    if without_cases is None:
        return Measure(name, value, None, None, Reason(Cause.ONE_CASE), n)
    if few is not None and name == "alpha_interval":
        return Measure(name, value, None, None, few, n)
    interval, reason = Jackknife(value, parts, without_cases, _SCALES[name]).interval()
    low, high = (None, None) if reason else (interval.low, interval.high)
    return Measure(name, value, low, high, reason, n)


def _ratio(tops: Floats, bottoms: Floats) -> Floats:
    """Quotients, NaN where the divisor is 0."""
    ratios: Floats = np.divide(tops, bottoms, out=np.full(tops.shape, np.nan), where=bottoms > 0.0)
    return ratios
