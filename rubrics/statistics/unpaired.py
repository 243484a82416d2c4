"""Difference of two means over different cases, by MOVER (Zou and Donner 2008).

Each end of the interval is as far from the difference as the ends of the two means' own intervals (`score_intervals`)
say together: the root of the sum of their squares. So a side without a failure is not taken for certain, and scores
that hardly vary allow for rare bad ones. p is the level at which the interval ends at 0.
"""

from dataclasses import dataclass, fields
from math import isnan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.case_influence import Influences, measure_influences
from gradebook.rubrics.statistics.comparison import PairFigures
from gradebook.rubrics.statistics.distributions import pair_distributions
from gradebook.rubrics.statistics.intervals import DIFFERENCES, LEVEL, SPREAD_TOLERANCE, Interval, Mean
from gradebook.rubrics.statistics.power import minimal_effect
from gradebook.rubrics.statistics.rare_values import unseen_share
from gradebook.rubrics.statistics.score_intervals import measure_scores, score_interval_of

_MOST_QUANTILE = 7.5  # of the normal distribution: p of 6e-14, near the precision of a level
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
    counts with the covariance of the two means. bounds: range of a difference; that of a score reaches up to 1. In the
    result n counts the outputs of both sides and case_count their cases; figures of pairs are None or 0. p and the
    interval are None with fewer than two cases on a side.

    With cases on both sides the interval is at least that of Welch's t (1947), CR2 with the degrees of freedom of Welch
    over those of each side, and allows for a share of cases that fell as far as they can, which so many can't show.
    """
    sides = measure_scores(scores_a, cases_a), measure_scores(scores_b, cases_b)
    means = [None if isnan(side.mean) else side.mean for side in sides]
    figures = _OF_PAIRS | {
        "n": scores_a.size + scores_b.size,
        "case_count": int(np.unique(np.concatenate([cases_a, cases_b])).size),
        "mean_a": means[0],
        "mean_b": means[1],
        "mean_diff": None if None in means else sides[1].mean - sides[0].mean,
        "dominance": pair_distributions(scores_a, scores_b).dominance.value,
    }
    if min(side.unit_count for side in sides) >= 2:
        by_case = measure_influences(scores_b, scores_a, cases_b, cases_a)
        figures |= UnpairedDifference(*sides, by_case, bounds).figures()
    return PairFigures(**figures)


@dataclass(frozen=True, slots=True)
class UnpairedDifference:
    """Means of two sides of two cases or more, and what each case adds to them. bounds: range of their difference."""

    of_a: Mean
    of_b: Mean
    by_case: Influences
    bounds: Interval

    @property
    def value(self) -> float:
        return self.of_b.mean - self.of_a.mean

    @property
    def error(self) -> float:
        return float(np.linalg.norm(self.by_case.own - self.by_case.others))

    @property
    def df(self) -> float:
        parts = [(side.standard_error**2, side.df) for side in (self.of_a, self.of_b)]
        squares = sum(part**2 / df for part, df in parts)
        return sum(part for part, _ in parts) ** 2 / squares if squares else min(df for _, df in parts)

    @property
    def correlation(self) -> float:
        """Correlation of the two means, through cases on both sides; 0 without such cases."""
        both = float(np.linalg.norm(self.by_case.own) * np.linalg.norm(self.by_case.others))
        return self.by_case.covariance / both if both > SPREAD_TOLERANCE**2 else 0.0

    def figures(self) -> dict[str, float | None]:
        low, high = self.ends((1.0 - LEVEL) / 2.0)
        return {
            "diff_low": low,
            "diff_high": high,
            "p": self.p(),
            "detectable_diff": minimal_effect(self.error, self.df) if self.error > SPREAD_TOLERANCE else None,
        }

    def ends(self, tail: float) -> tuple[float, float]:
        """Both ends, each beyond the true difference with the probability tail."""
        scores = Interval(1.0 - self.bounds.high, 1.0)
        of_a, of_b = (score_interval_of(side, bounds=scores, level=1.0 - 2.0 * tail) for side in (self.of_a, self.of_b))
        down = self._margin(self.of_b.mean - of_b.low, of_a.high - self.of_a.mean)
        up = self._margin(of_b.high - self.of_b.mean, self.of_a.mean - of_a.low)
        if self.is_shared:
            from scipy.special import stdtrit

            of_t = -float(stdtrit(self.df, tail)) * self.error
            unseen = float(unseen_share(min(self.of_a.unit_count, self.of_b.unit_count), tail))
            down = max(down, of_t, unseen * (self.value - self.bounds.low))
            up = max(up, of_t, unseen * (self.bounds.high - self.value))
        found = Interval(self.value - down, self.value + up).clipped(self.bounds)
        return found.low, found.high

    @property
    def is_shared(self) -> bool:
        return bool((self.by_case.has_own & self.by_case.has_others).any())

    def _margin(self, one: float, other: float) -> float:
        return sqrt(max(0.0, one**2 + other**2 - 2.0 * self.correlation * one * other))

    def p(self) -> float:
        """Level at which the interval ends at 0, or 6e-14 where it is smaller."""
        from scipy.optimize import brentq
        from scipy.special import ndtr

        def end(quantile: float) -> float:
            low, high = self.ends(float(ndtr(-quantile)))
            return low if self.value > 0 else -high

        if end(0.0) <= 0.0:
            return 1.0
        quantile = brentq(end, 0.0, _MOST_QUANTILE, xtol=1e-12) if end(_MOST_QUANTILE) < 0.0 else _MOST_QUANTILE
        return min(1.0, 2.0 * float(ndtr(-quantile)))
