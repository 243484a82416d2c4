"""Comparison of one rater with others over several criteria, each figure with its interval over cases."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.agreement import MOST_LEVELS, Measure, too_few_for_chance
from gradebook.rubrics.statistics.agreement_sums import count_kinds
from gradebook.rubrics.statistics.jackknife import Jackknife, Parts, Scale, jackknife_parts

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
    whole, parts = measure(np.ones((1, own.size))), jackknife_parts(np.arange(own.size), cases)
    without_cases = measure(parts.weights) if parts.group_count > 1 else {}
    undefined = {"percent_agreement": f"found more than {MOST_LEVELS} different scores, expected levels"}
    undefined["alpha_interval"] = "the ratings are all equal"
    found = {
        name: _measure(name, float(whole[name][0]), without_cases.get(name), parts, undefined.get(name), few)
        for name in _SCALES
    }
    return RaterComparison(int(own.size), int(pairs.sum()), *found.values())


def _measure(
    name: str, value: float, without_cases: Floats | None, parts: Parts, undefined: str | None, few: str | None
) -> Measure:
    n = parts.weights.shape[1]
    if not n:
        return Measure(name, None, None, None, "no output was rated by another rater too", n)
    if np.isnan(value):
        return Measure(name, None, None, None, undefined, n)
    if without_cases is None:
        return Measure(name, value, None, None, "one case has no interval", n)
    if few is not None and name == "alpha_interval":
        return Measure(name, value, None, None, few, n)
    interval, reason = Jackknife(value, parts, without_cases, _SCALES[name]).interval()
    low, high = (None, None) if reason else (interval.low, interval.high)
    return Measure(name, value, low, high, reason, n)


def _ratio(tops: Floats, bottoms: Floats) -> Floats:
    """Quotients, NaN where the divisor is 0."""
    found: Floats = np.divide(tops, bottoms, out=np.full(tops.shape, np.nan), where=bottoms > 0.0)
    return found
