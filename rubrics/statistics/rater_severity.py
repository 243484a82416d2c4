"""Severity of raters, and means that do not depend on who rated what.

A score is the unit's value plus the rater's severity (the additive model of a two-way analysis of variance, fitted by
least squares, so that ratings may be missing). A mean of values is then comparable between models that stricter raters
rated more often.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.intervals import LEVEL, SCORES, Interval

LEAST_CASES = 20


@dataclass(frozen=True, slots=True)
class AdjustedMean:
    """Mean of a group of units: of the plain ratings, and adjusted for severity with its interval over cases.

    n: units. reason: why a figure is None.
    """

    n: int
    plain: float
    adjusted: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str | None = None


class SeverityFit:
    """Additive model of ratings. scores: (rater, unit), in 0..1, NaN where missing, one or more of each unit.

    cases: (unit,), number of each one's case, from 0.
    """

    def __init__(self, scores: Floats, cases: NDArray[np.int64]) -> None:
        is_rated = ~np.isnan(scores)
        rated, known = is_rated.astype(np.float64), np.where(is_rated, scores, 0.0)
        counts = rated.sum(axis=0)
        self._means, self._shares = known.sum(axis=0) / counts, rated / counts  # (unit,) and (rater, unit)
        order = np.argsort(cases, kind="stable")
        starts = np.flatnonzero(np.diff(cases[order], prepend=-1))
        self._units = np.split(order, starts[1:])  # of each case
        # Normal equations of the severities, with the units' values eliminated, of each case.
        self._laplacians = np.array([_laplacian(rated[:, units], counts[units]) for units in self._units])
        self._sums = np.array([(known - rated * self._means)[:, units].sum(axis=1) for units in self._units])
        whole = self._laplacians.sum(axis=0)
        self.is_connected = bool(np.linalg.matrix_rank(whole, tol=1e-8) == len(scores) - 1)
        self._found = _solve(whole, self._sums.sum(axis=0))
        # Severities without each case in turn: (case, rater).
        self._without = np.array(
            [
                _solve(whole - each, self._sums.sum(axis=0) - sums)
                for each, sums in zip(self._laplacians, self._sums, strict=True)
            ]
        )

    @property
    def severities(self) -> Floats | None:
        """Severity of each rater, (rater,), with the mean 0; below 0: stricter. None if some raters share no units."""
        return self._found if self.is_connected else None

    def mean_of(self, is_in: NDArray[np.bool_]) -> AdjustedMean:
        """Mean of some units, (unit,), by the delete-one-case jackknife over all cases."""
        n, plain = int(is_in.sum()), float(self._means[is_in].mean())
        if not self.is_connected:
            return AdjustedMean(n, plain, None, reason="some raters share no output with the others")
        chosen = [units[is_in[units]] for units in self._units]
        counts = np.array([units.size for units in chosen])
        means = np.array([self._means[units].sum() for units in chosen])
        shares = np.array([self._shares[:, units].sum(axis=1) for units in chosen])
        value = float((means.sum() - shares.sum(axis=0) @ self._found) / n)
        case_count = int((counts > 0).sum())
        if case_count < LEAST_CASES:
            reason = f"found {counted(case_count, 'case')}, expected {LEAST_CASES} or more for an interval"
            return AdjustedMean(n, plain, value, reason=reason)
        from scipy.special import stdtrit

        tops = means.sum() - means - ((shares.sum(axis=0) - shares) * self._without).sum(axis=1)
        left = tops / (n - counts)
        error = np.sqrt((left.size - 1) / left.size * np.square(left - left.mean()).sum())
        margin = float(stdtrit(case_count - 1.0, (1.0 + LEVEL) / 2.0) * error)
        interval = Interval(value - margin, value + margin).clipped(SCORES)
        return AdjustedMean(n, plain, value, interval.low, interval.high)


def _laplacian(rated: Floats, counts: Floats) -> Floats:
    found: Floats = np.diag(rated.sum(axis=1)) - rated @ (rated / counts).T
    return found


def _solve(laplacian: Floats, sums: Floats) -> Floats:
    found: Floats = np.linalg.pinv(laplacian, rcond=1e-8, hermitian=True) @ sums
    return found
