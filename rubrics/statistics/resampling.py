"""Resampling: jackknife intervals, and the seeded bootstrap of means.

Jackknife: intervals of statistics from the sample without each case in turn.
Efron (1982), chapter 3, with Student's quantile on a scale on which the statistic is nearly normal. A bootstrap of
agreement draws some cases twice, which agree with themselves, and its percentiles are too narrow below 50 cases.

Seeded bootstrap: resampled means at any size.
Efron (1979), with the percentile interval of Efron and Tibshirani (1993), chapter 13. With clusters, whole clusters are
drawn, each with all its values (Field and Welsh 2007, the cluster bootstrap).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, isnan, nan, sqrt, tanh
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats, cluster_sums
from gradebook.rubrics.statistics.calibration import bounded_interval
from gradebook.rubrics.statistics.intervals import (
    DIFFERENCES,
    SCORES,
    SPREAD_TOLERANCE,
    UNKNOWN,
    Interval,
    constant_interval,
    t_quantile,
    wilson,
)
from gradebook.rubrics.statistics.reasons import Cause, Reason

MOST_GROUPS = 400  # parts to leave out; more cases are left out in groups of equal size
LEAST_GROUPS, MOST_CELLS = 40, 1_000_000  # of parts by kinds: fewer parts of many different units
SEED = 0


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

    def interval(self) -> tuple[Interval, Reason | None]:
        """95% interval; or `UNKNOWN` with the reason."""
        if np.isnan(self.values).any():
            return UNKNOWN, Reason(Cause.UNDEFINED_WITHOUT_ONE)
        if self.raters is not None and (self.raters.size == 0 or np.isnan(self.raters).any()):
            return UNKNOWN, Reason(Cause.TWO_RATERS if self.raters.size == 0 else Cause.UNDEFINED_WITHOUT_ONE)
        variance, degrees = self._variance()
        if not sqrt(variance) > SPREAD_TOLERANCE:
            return self._constant()
        if self.scale is Scale.RATE and 0.0 < self.value < 1.0:
            return bounded_interval(self.value, variance, degrees), None
        margin = t_quantile(degrees) * sqrt(variance)
        centre = float(_scaled(np.array([self.value]), self.scale)[0])
        if isnan(margin) or not np.isfinite(centre):
            return UNKNOWN, Reason(Cause.NO_WIDTH)
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

    def _constant(self) -> tuple[Interval, Reason | None]:
        """Interval of a statistic that no case changes: of a rate or a mean it is known."""
        if self.scale is Scale.RATE:
            return wilson(self.value * self.parts.group_count, self.parts.group_count), None
        if self.scale is Scale.DIFFERENCE:
            return constant_interval(self.value, self.parts.group_count, DIFFERENCES), None
        return UNKNOWN, Reason(Cause.NO_WIDTH)


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


MOST_BINS = 512  # equal values are drawn together; more distinct values than this are binned into this many steps
MOST_VARIANCE_LOST = 1e-3  # by that binning; 10,000 resamples estimate a variance to within 1.4e-2
CHUNK_CELLS = 4_000_000  # of 8 bytes: maximum in memory at once
LEAST_DEFINED = 0.95  # share of resamples in which a statistic has to be defined


def bootstrap_means(
    values: ArrayLike, *, resample_count: int = 10_000, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """Means of resamples of the values.

    values: (n,), no NaN. clusters: (n,), cluster of each value, of any sortable type. Returns (resample,), NaN with
    fewer than two values or clusters. Equal values are drawn together as a multinomial count, so that the time depends
    on the number of distinct ones. More than `MOST_GROUPS` distinct values are first binned into as many equal steps,
    each with its own mean, unless that would lose more than `MOST_VARIANCE_LOST` of the variance.
    """
    sums, sizes = cluster_sums(values, clusters)
    if sums.size < 2 or not resample_count:
        return np.full(resample_count, np.nan)
    rng = np.random.default_rng(seed)
    drawn = _group(sums, sizes)
    if drawn is None:
        return _draw_units(sums, sizes, resample_count, rng)
    group_sums, group_sizes, counts = drawn
    means = [(weights @ group_sums) / (weights @ group_sizes) for weights in _draw_counts(counts, resample_count, rng)]
    return np.concatenate(means)


def percentile_interval(statistics: ArrayLike, level: float = 0.95) -> Interval:
    """Interval between the outer percentiles of resampled statistics.

    NaN without statistics, or if all are equal, as for equal values: a width of 0 would claim certainty. NaN also if
    the statistic is undefined (NaN) in more than 1 of 20 resamples; fewer undefined ones are dropped.
    """
    array = np.asarray(statistics, dtype=np.float64)
    defined = array[~np.isnan(array)]
    if not defined.size or defined.size < LEAST_DEFINED * array.size or np.ptp(defined) <= SPREAD_TOLERANCE:
        return UNKNOWN
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _group(sums: Floats, sizes: Floats) -> tuple[Floats, Floats, NDArray[np.int64]] | None:
    """Group similar units: mean sum, size and number of each kind; None if grouping would lose too much variance."""
    deviations = sums - sizes * (sums.sum() / sizes.sum())
    kinds, codes = np.unique(sizes + 1j * sums, return_inverse=True)
    if kinds.size > MOST_BINS:
        distinct, of_size = np.unique(sizes, return_inverse=True)
        step_count = max(1, MOST_BINS // distinct.size)
        low, spread = deviations.min(), np.ptp(deviations) or 1.0
        steps = np.minimum((deviations - low) / spread * step_count, step_count - 1).astype(np.int64)
        _, codes = np.unique(of_size * step_count + steps, return_inverse=True)
    counts = np.bincount(codes)
    group_sums, group_sizes = (np.bincount(codes, weights=totals) / counts for totals in (sums, sizes))
    lost = np.square(sums - group_sums[codes]).sum()
    is_blurred = lost > MOST_VARIANCE_LOST * np.square(deviations).sum()
    return None if is_blurred else (group_sums, group_sizes, counts)


def _draw_counts(
    counts: NDArray[np.int64], resample_count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield how often each group is drawn, (resample, group), one chunk at a time."""
    chunk = max(1, CHUNK_CELLS // counts.size)
    for start in range(0, resample_count, chunk):
        yield rng.multinomial(counts.sum(), counts / counts.sum(), size=min(chunk, resample_count - start))


def _draw_units(sums: Floats, sizes: Floats, resample_count: int, rng: np.random.Generator) -> Floats:
    chunk = max(1, CHUNK_CELLS // sums.size)
    means = np.empty(resample_count)
    for start in range(0, resample_count, chunk):
        stop = min(start + chunk, resample_count)
        units = rng.integers(0, sums.size, (stop - start, sums.size))
        means[start:stop] = sums[units].sum(axis=1) / sizes[units].sum(axis=1)
    return means
