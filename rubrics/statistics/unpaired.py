"""Difference of two means over different cases: Welch's t (1947), robust to correlation within cases."""

from dataclasses import fields
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.case_influence import measure_influences
from gradebook.rubrics.statistics.comparison import PairFigures
from gradebook.rubrics.statistics.distributions import pair_distributions
from gradebook.rubrics.statistics.intervals import DIFFERENCES, LEVEL, SPREAD_TOLERANCE, Interval, Mean, measure_mean
from gradebook.rubrics.statistics.power import minimal_effect

# Cases on each side from which t holds near the ceiling too: 50 beside 80 in 94%, 50 beside 200 in 90%.
LEAST_CASES = 50
LEAST_UNEVEN = 200  # where one side has over `UNEVEN` times the cases of the other
UNEVEN = 1.6
_OF_PAIRS: dict[str, Any] = {
    field.name: 0 if field.name.endswith("_count") and field.type is int else None for field in fields(PairFigures)
}


def measure_unpaired(
    scores_a: Floats,
    scores_b: Floats,
    cases_a: NDArray[np.int64],
    cases_b: NDArray[np.int64],
    *,
    bounds: Interval = DIFFERENCES,
) -> PairFigures:
    """Compare the means of two sets of scores whose cases may differ.

    scores_a: (n,), scores_b: (m,), no NaN. cases_a, cases_b: case of each, of one numbering; a case on both sides
    counts with the covariance of the two means. bounds: range of a difference. In the result n counts the outputs of
    both sides and case_count their cases; figures of pairs are None or 0. p and the interval are None with fewer than
    `LEAST_CASES` cases on a side, or `LEAST_UNEVEN` if the other side has many more.

    The variance is CR2. The degrees of freedom are Welch's over those of each side (Bell and McCaffrey), so that
    independent scores get Welch's test.
    """
    sides = measure_mean(scores_a, cases_a), measure_mean(scores_b, cases_b)
    means = [None if isnan(side.mean) else side.mean for side in sides]
    figures = _OF_PAIRS | {
        "n": scores_a.size + scores_b.size,
        "case_count": int(np.unique(np.concatenate([cases_a, cases_b])).size),
        "mean_a": means[0],
        "mean_b": means[1],
        "mean_diff": None if None in means else sides[1].mean - sides[0].mean,
        "dominance": pair_distributions(scores_a, scores_b).dominance.value,
    }
    fewer, more = sorted(side.unit_count for side in sides)
    if fewer >= (LEAST_CASES if more <= UNEVEN * fewer else LEAST_UNEVEN):
        by_case = measure_influences(scores_b, scores_a, cases_b, cases_a)
        figures |= _test(sides, float(np.linalg.norm(by_case.own - by_case.others)), bounds)
    return PairFigures(**figures)


def _test(sides: tuple[Mean, Mean], error: float, bounds: Interval) -> dict[str, float]:
    """p, interval and detectable difference; empty if no score varies."""
    from scipy.special import stdtr, stdtrit

    if error <= SPREAD_TOLERANCE:
        return {}
    parts = [side.standard_error**2 for side in sides]
    df = sum(parts) ** 2 / sum(part**2 / side.df for part, side in zip(parts, sides, strict=True))
    value = sides[1].mean - sides[0].mean
    margin = float(stdtrit(df, (1.0 + LEVEL) / 2.0)) * error
    interval = Interval(value - margin, value + margin).clipped(bounds)
    return {
        "diff_low": interval.low,
        "diff_high": interval.high,
        "p": float(2.0 * stdtr(df, -abs(value) / error)),
        "detectable_diff": minimal_effect(error, df),
    }
