"""Jackknife: intervals of statistics from the sample without each case in turn.

Efron (1982), chapter 3, with Student's quantile on a scale on which the statistic is nearly normal. A bootstrap of
agreement draws some cases twice, which agree with themselves, and its percentiles are too narrow below 50 cases.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, isnan, nan, sqrt, tanh
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.calibration import bounded_interval
from gradebook.rubrics.statistics.intervals import (
    DIFFERENCES,
    LEVEL,
    SCORES,
    SPREAD_TOLERANCE,
    UNKNOWN,
    Interval,
    constant_interval,
    wilson,
)

MOST_GROUPS = 400  # parts to leave out; more cases are left out in groups of equal size
LEAST_GROUPS, MOST_CELLS = 40, 1_000_000  # of parts by kinds: fewer parts of many different units
SEED = 0
TWO_RATERS = "raters are a sample here, and two do not tell how far raters differ"
UNDEFINED_WITHOUT_ONE = "it is undefined without some of the cases: too few or too equal ratings"
NO_WIDTH = "it is the same without any of the cases, which tells no width"


class Scale(StrEnum):
    """Range of a statistic. AT_MOST_ONE: any negative value to 1; KAPPA, CORRELATION, DIFFERENCE: -1 to 1; RATE, SCORE:
    0..1; RATIO: 0 or more; ANY: unbounded.
    """

    AT_MOST_ONE = "at_most_one"
    KAPPA = "kappa"
    CORRELATION = "correlation"
    RATE = "rate"
    SCORE = "score"
    DIFFERENCE = "difference"
    RATIO = "ratio"
    ANY = "any"


_BOUNDS = {Scale.RATE: SCORES, Scale.SCORE: SCORES, Scale.DIFFERENCE: DIFFERENCES, Scale.KAPPA: DIFFERENCES}
_MEANS = (Scale.RATE, Scale.DIFFERENCE)


@dataclass(frozen=True, slots=True)
class Parts:
    """Samples without one group of cases each. weights: (part, kind), units of each kind that are left.

    counts: (part,), groups that leave the same sample. group_count: of all groups.
    """

    weights: Floats
    counts: Floats
    group_count: int


def jackknife_parts(kinds: NDArray[np.intp], cases: NDArray[Any] | None) -> Parts:
    """Parts of a sample. kinds: (unit,), kind of each unit. cases: (unit,), None: each unit is a case of its own."""
    if not kinds.size:
        return Parts(np.empty((0, 0)), np.empty(0), 0)
    codes = np.arange(kinds.size) if cases is None else np.unique(cases, return_inverse=True)[1].ravel()
    case_count, kind_count = int(codes.max()) + 1, int(kinds.max()) + 1
    whole = np.bincount(kinds, minlength=kind_count).astype(np.float64)
    if case_count == kinds.size and kind_count <= MOST_GROUPS:  # cases of the same kind leave the same sample
        return Parts(whole - np.eye(kind_count), whole, case_count)
    groups = codes
    most = min(MOST_GROUPS, max(LEAST_GROUPS, MOST_CELLS // kind_count))
    if case_count > most:
        groups = np.random.default_rng(SEED).permutation(case_count)[codes] % most
    group_count = min(case_count, most)
    left_out = np.bincount(groups * kind_count + kinds, minlength=group_count * kind_count)
    rows, counts = np.unique(left_out.reshape(group_count, kind_count), axis=0, return_counts=True)
    return Parts(whole - rows, counts.astype(np.float64), group_count)


@dataclass(frozen=True, slots=True)
class Jackknife:
    """A statistic of the sample and of each of its parts. values: (part,).

    raters: (rater,), values without each rater, if raters are a sample too; of two raters there are none.
    """

    value: float
    parts: Parts
    values: Floats
    scale: Scale
    raters: Floats | None = None

    def with_raters(self, values: Floats) -> "Jackknife":
        return replace(self, raters=values)

    def interval(self) -> tuple[Interval, str | None]:
        """95% interval; or `UNKNOWN` with the reason."""
        if np.isnan(self.values).any():
            return UNKNOWN, UNDEFINED_WITHOUT_ONE
        if self.raters is not None and (self.raters.size == 0 or np.isnan(self.raters).any()):
            return UNKNOWN, TWO_RATERS if self.raters.size == 0 else UNDEFINED_WITHOUT_ONE
        variance, degrees = self._variance()
        if not sqrt(variance) > SPREAD_TOLERANCE:
            return self._constant()
        if self.scale is Scale.RATE and 0.0 < self.value < 1.0:
            return bounded_interval(self.value, variance, degrees), None
        margin = _t_quantile(degrees) * sqrt(variance)
        centre = float(_scaled(np.array([self.value]), self.scale)[0])
        if isnan(margin) or not np.isfinite(centre):
            return UNKNOWN, NO_WIDTH
        return Interval(*(_unscaled(end, self.scale) for end in (centre - margin, centre + margin))), None

    def _variance(self) -> tuple[float, float]:
        """Variance on the scale, and its degrees of freedom."""
        # A chance-corrected figure has variances and margins estimated beside it: two degrees less than a mean.
        most = self.parts.group_count - 1.0
        degrees = most if self.scale in _MEANS else max(1.0, most - 2.0)
        of_cases = _spread(_scaled(self.values, self.scale), self.parts.counts) * most / degrees
        if self.raters is None:
            return of_cases, degrees
        of_raters = _spread(_scaled(self.raters, self.scale), np.ones(self.raters.size))
        total = of_cases + of_raters
        if not total > 0.0:
            return total, degrees
        return total, total**2 / (of_cases**2 / degrees + of_raters**2 / (self.raters.size - 1.0))

    def _constant(self) -> tuple[Interval, str | None]:
        """Interval of a statistic that no case changes: of a rate or a mean it is known."""
        if self.scale is Scale.RATE:
            return wilson(self.value * self.parts.group_count, self.parts.group_count), None
        if self.scale is Scale.DIFFERENCE:
            return constant_interval(self.value, self.parts.group_count, DIFFERENCES), None
        return UNKNOWN, NO_WIDTH


def _spread(values: Floats, counts: Floats) -> float:
    """Jackknife variance; NaN if a value is infinite."""
    g = counts.sum()
    if not np.isfinite(values).all():
        return nan
    mean = counts @ values / g
    return float((g - 1.0) / g * (counts @ np.square(values - mean)))


def _scaled(values: Floats, scale: Scale) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        match scale:
            case Scale.AT_MOST_ONE | Scale.KAPPA:
                return -np.log(np.maximum(1.0 - values, 0.0))
            case Scale.CORRELATION:
                return np.arctanh(np.clip(values, -1.0, 1.0))
            case Scale.RATIO:
                return np.log(np.maximum(values, 0.0))
    return values


def _unscaled(end: float, scale: Scale) -> float:
    match scale:
        case Scale.AT_MOST_ONE | Scale.KAPPA:
            end = 1.0 - exp(-end)
        case Scale.CORRELATION:
            end = tanh(end)
        case Scale.RATIO:
            end = exp(end)
    bounds = _BOUNDS.get(scale)
    return end if bounds is None else min(max(end, bounds.low), bounds.high)


def _t_quantile(degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + LEVEL) / 2))
