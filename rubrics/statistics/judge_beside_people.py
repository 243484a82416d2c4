"""A judge beside people: its agreement with its gaps counted, and whether it agrees with people as they do.

The second replaces a person by the judge, as the alternative annotator test does (Calderon, Reichart and Dror 2025), on
agreement beyond chance: a judge that gives one level to everything often has the same level as people.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics import agreement_sums as sums_of
from gradebook.rubrics.statistics.agreement import Measure, too_few_for_chance
from gradebook.rubrics.statistics.agreement_sums import Kinds
from gradebook.rubrics.statistics.alpha import interval_alpha
from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.jackknife import Jackknife, Parts, Scale, jackknife_parts

WITH_GAPS, OVER_PEOPLE = "percent_agreement_with_gaps", "alpha_over_people"
JUDGE_STATISTICS = (WITH_GAPS, OVER_PEOPLE)


def agreement_with_gaps(levels: Floats, is_gap: NDArray[np.bool_], cases: ArrayLike) -> Measure:
    """Share of pairs with the same level, where an output that the judge left unscored agrees with nobody.

    levels: (voice, output), the judge's first, NaN where missing. is_gap: (output,), asked and left unscored. cases:
    (output,).
    """
    is_asked = ~np.isnan(levels[0]) | is_gap
    pairs = (~np.isnan(levels[1:]) & is_asked).sum(axis=0).astype(np.float64)
    same = (levels[1:] == levels[0]).sum(axis=0).astype(np.float64)
    chosen = pairs > 0
    n = int(chosen.sum())
    if not n:
        return Measure(WITH_GAPS, None, None, None, "found no pairs", n)
    codes = np.asarray(cases)[chosen]
    same_sums, pair_sums = (cluster_sums(each[chosen], codes)[0] for each in (same, pairs))
    value, group_count = float(same_sums.sum() / pair_sums.sum()), same_sums.size
    if group_count < 2:
        return Measure(WITH_GAPS, value, None, None, "one case has no interval", n)
    parts = Parts(np.empty((group_count, 0)), np.ones(group_count), group_count)
    without = (same_sums.sum() - same_sums) / (pair_sums.sum() - pair_sums)
    return _measure(WITH_GAPS, Jackknife(value, parts, without, Scale.RATE), n)


def alpha_over_people(scores: Floats, cases: ArrayLike) -> Measure:
    """Krippendorff's alpha (interval) of the judge with each person, minus that of people with each other.

    scores: (voice, output), the judge's first, NaN where missing. Of outputs that the judge and two people scored.
    """
    is_complete = ~np.isnan(scores[0]) & ((~np.isnan(scores[1:])).sum(axis=0) > 1)
    n = int(is_complete.sum())
    if n < 2:
        return Measure(OVER_PEOPLE, None, None, None, "fewer than 2 outputs were scored by the judge and two people", n)
    codes = np.asarray(cases)[is_complete]
    kinds = sums_of.count_kinds(scores[:, is_complete], scores[:, is_complete])
    value = float(_difference(kinds, kinds.counts[None].astype(np.float64))[0])
    if np.isnan(value):
        return Measure(OVER_PEOPLE, None, None, None, "the ratings are all equal, or too few", n)
    few = too_few_for_chance(kinds, codes)
    if few is not None:
        return Measure(OVER_PEOPLE, value, None, None, few, n)
    parts = jackknife_parts(kinds.of_units, codes)
    return _measure(OVER_PEOPLE, Jackknife(value, parts, _difference(kinds, parts.weights), Scale.ANY), n)


def _difference(kinds: Kinds, weights: Floats) -> Floats:
    pairs = sums_of.side_pairs(sums_of.paired_sides(kinds), weights)
    judge = sums_of.pair_one_way_sums(sums_of.pair_two_way_sums(pairs))
    of_judge = 2.0 * pairs.sums(np.square(pairs.own - pairs.others))
    people = kinds.without_rater(0)
    among = sums_of.one_way_sums(people, weights)
    of_people = sums_of.squared_differences(people, weights)
    found: Floats = interval_alpha(of_judge, judge.ratings, judge.total, judge.squares) - interval_alpha(
        of_people, among.ratings, among.total, among.squares
    )
    return found


def _measure(name: str, jackknife: Jackknife, n: int) -> Measure:
    interval, reason = jackknife.interval()
    if reason is not None:
        return Measure(name, jackknife.value, None, None, reason, n)
    return Measure(name, jackknife.value, interval.low, interval.high, None, n)
