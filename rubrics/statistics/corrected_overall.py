"""Overall scores and their differences, corrected by people's ratings of some outputs.

An overall score is a weighted sum of criteria. Each criterion that a judge scored is corrected by PPI++ (Angelopoulos,
Duchi and Zrnic 2023), each with its own ratings and weight of the judge. What a case adds to the errors of all of them,
and of both models of a difference, is summed before it is squared: so the variance knows how they go together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.calibration import Rated, fold_weights
from gradebook.rubrics.statistics.case_influence import case_contributions
from gradebook.rubrics.statistics.intervals import LEVEL, SPREAD_TOLERANCE, Interval
from gradebook.rubrics.statistics.rare_values import unseen_share

LEAST_RATED_CASES = 50  # of each criterion: bench/inference_agreement.py has the coverage from there
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the sum would fall and rise if the judge erred as far as it can in all rated cases of a criterion."""

    rated_count: int
    fall: float
    rise: float


@dataclass(frozen=True, slots=True)
class CorrectedSum:
    """Weighted sum of corrected means. by_case: (case,), contribution of each case to its error.

    reaches: of each corrected criterion.
    """

    value: float
    by_case: Floats
    reaches: tuple[Reach, ...]

    @property
    def standard_error(self) -> float:
        return float(np.linalg.norm(self.by_case))

    @property
    def fewest_rated(self) -> int:
        """Rated cases of the criterion with the fewest."""
        return min((reach.rated_count for reach in self.reaches), default=0)

    def minus(self, other: "CorrectedSum") -> "CorrectedSum":
        """Difference of two sums over the same numbering of cases."""
        turned = (Reach(reach.rated_count, reach.rise, reach.fall) for reach in other.reaches)
        return CorrectedSum(self.value - other.value, self.by_case - other.by_case, (*self.reaches, *turned))

    def interval(self, bounds: Interval) -> Interval | None:
        """The t interval; None with too few rated cases, or if nothing varies.

        Degrees of freedom: those of the criterion with the fewest rated cases; fewer where few cases make most of the
        variance, as where the judge is rarely wrong: a variance of values of this kurtosis has no more (Satterthwaite).
        Each end allows for the share of cases, of the criterion where it matters most, in which the judge errs as far
        as it can and that so many rated cases can't show (`rare_values`).
        """
        from scipy.special import stdtrit

        if self.fewest_rated < LEAST_RATED_CASES or self.standard_error <= SPREAD_TOLERANCE:
            return None
        squares = np.square(self.by_case) / self.standard_error**2
        spread = max(float(squares @ squares) - 1.0 / squares.size, 1e-12)
        degrees = max(1.0, min(self.fewest_rated - 1.0, 2.0 / spread))
        tail = (1.0 - LEVEL) / 2.0
        margin = -float(stdtrit(degrees, tail)) * self.standard_error
        down, up = margin, margin
        for reach in self.reaches:
            share = float(unseen_share(reach.rated_count, tail))
            down, up = max(down, share * reach.fall), max(up, share * reach.rise)
        return Interval(self.value - down, self.value + up).clipped(bounds)


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of a criterion that need no correction. scores: (output,); cases: (output,), number of each one's case."""

    scores: Floats
    cases: Codes


def corrected_sum(parts: Sequence[tuple[float, Rated | Scored]], case_count: int) -> CorrectedSum:
    """Weighted sum of the means of criteria. parts: weight and scores of each; cases are numbers below case_count.

    A criterion with ratings of all outputs has people's mean. Raises `ValueError` for one without ratings, or without
    the numbers of its cases.
    """
    value, by_case, reaches = 0.0, np.zeros(case_count), []
    for weight, part in parts:
        if isinstance(part, Scored):
            value += weight * float(part.scores.mean())
            by_case += weight * case_contributions(part.scores, part.cases, case_count)
            continue
        mean, contributions, reach = _corrected(part, case_count)
        value += weight * mean
        by_case += weight * contributions
        fall, rise = (abs(weight) * each for each in ((reach.fall, reach.rise)[:: 1 if weight > 0 else -1]))
        reaches.append(Reach(reach.rated_count, fall, rise))
    return CorrectedSum(value, by_case, tuple(reaches))


def _corrected(rated: Rated, case_count: int) -> tuple[float, Floats, Reach]:
    if rated.cases is None or rated.unrated_cases is None or not rated.n:
        raise ValueError("found no ratings or no numbers of cases, expected both")
    cases, unrated_cases = (np.asarray(each, dtype=np.int64) for each in (rated.cases, rated.unrated_cases))
    weights = fold_weights(rated)
    weight = float(weights.mean())
    errors = rated.ratings
    if weight:
        errors = rated.ratings - weights * (rated.judged - rated.unrated.mean())
    found = case_contributions(errors, cases, case_count)
    if weight:
        found = found + weight * case_contributions(rated.unrated, unrated_cases, case_count)
    mean, judged = float(errors.mean()), float(rated.unrated.mean()) if weight else 0.0
    # A rating of 0 beside a judge's 1 is an error of -weight (1 - judged), one of 1 beside 0 of 1 + weight judged.
    reach = Reach(np.unique(cases).size, mean + weight * (1.0 - judged), 1.0 + weight * judged - mean)
    return mean, found, reach
