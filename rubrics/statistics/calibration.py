"""Estimates of people's mean rating, from few of their ratings and many of a judge's scores.

PPI++ (Angelopoulos, Duchi and Zrnic 2023) corrects the judge's mean by its errors on the rated outputs, as far as the
judge is informative. It requires the rated outputs to be a random sample of all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.case_influence import Influences, case_contributions, measure_influences
from gradebook.rubrics.statistics.intervals import (
    LEVEL,
    SCORES,
    SPREAD_TOLERANCE,
    UNKNOWN,
    Interval,
    Mean,
    measure_mean,
    student_t,
    wilson,
)
from gradebook.rubrics.statistics.score_intervals import score_interval, worth_ends
from gradebook.rubrics.statistics.vectorised_means import Means

Levels = Sequence[float]  # scores of a criterion's levels, ascending
LEAST_RATED = 3  # two values and the weight of the judge
MOST_FOLDS = 50  # the judge's weight is fitted without each of so many parts of the rated cases
# Rated cases with another rating than the most common one, and their share: below both, errors of a judge are too few.
LEAST_OTHERS, LEAST_OTHER_SHARE = 5, 0.2
MOST_SHIFT = 3.0  # standard errors, which a random sample exceeds in 0.3%
UNSEEN = 0.5  # of a case, spread over the levels: errors too rare to be observed


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated mean in 0..1. None if the mean or its interval is undefined; reason: the cause."""

    value: float | None
    ci_low: float | None
    ci_high: float | None
    reason: str | None

    @classmethod
    def of(cls, value: float | None, interval: Interval) -> "Estimate":
        """Mean with its interval; None without scores, and no interval if it is unknown (NaN)."""
        if value is None:
            return cls(None, None, None, "found no scores, expected some")
        if not interval.is_known:
            return cls(value, None, None, "too few outputs to tell how sure it is")
        return cls(value, interval.low, interval.high, None)

    @property
    def width(self) -> float | None:
        """Width of the interval."""
        return None if self.ci_low is None or self.ci_high is None else self.ci_high - self.ci_low


@dataclass(frozen=True, slots=True)
class Rated:
    """Outputs rated by people and scored by the judge, and those scored only by the judge; all scores in 0..1.

    ratings, judged: (rated,), the same outputs. unrated: (unrated,), the judge's scores. cases, unrated_cases: case of
    each output, if a case may have several; None if each output is a case of its own.
    """

    ratings: Floats
    judged: Floats
    unrated: Floats
    cases: ArrayLike | None = None
    unrated_cases: ArrayLike | None = None

    @property
    def n(self) -> int:
        """Number of rated outputs."""
        return int(self.ratings.size)

    @property
    def has_clusters(self) -> bool:
        """Whether any case has several outputs."""
        if self.cases is None or self.unrated_cases is None:
            return False
        every = np.concatenate([np.asarray(self.cases), np.asarray(self.unrated_cases)])
        return bool(np.unique(every).size < every.size)

    @property
    def total(self) -> int:
        """Number of all outputs."""
        return int(self.ratings.size + self.unrated.size)


def naive_mean(rated: Rated) -> Estimate:
    """The judge's mean over all outputs, taken as correct, with the interval of the tables."""
    every = np.concatenate([rated.judged, rated.unrated])
    cases = None
    if rated.cases is not None and rated.unrated_cases is not None:
        cases = np.concatenate([np.asarray(rated.cases), np.asarray(rated.unrated_cases)])
    return Estimate.of(float(every.mean()) if every.size else None, score_interval(every, cases))


def rated_mean(rated: Rated, levels: Levels | None = None) -> Estimate:
    """Mean rating over the rated outputs, without the judge.

    levels: of the criterion, None if unknown. Ratings that are all one of two levels get the interval of the tables,
    `score_interval`; others that of `corrected_mean`.
    """
    if not rated.n:
        return Estimate(None, None, None, "found no rated outputs")
    value = float(rated.ratings.mean())
    if levels is None or len(levels) != 2 or not np.isin(rated.ratings, levels).all():
        if levels is None and measure_mean(rated.ratings, rated.cases).is_constant:
            return Estimate.of(value, student_t(rated.ratings, clusters=rated.cases, bounds=SCORES))
        return Estimate.of(value, _corrected_interval(rated, levels, np.zeros(rated.n)))
    return Estimate.of(value, score_interval(rated.ratings, rated.cases, bounds=Interval(*levels)))


def judge_weight(rated: Rated) -> float:
    """Weight of the judge in PPI++, 0..1: its power-tuned lambda, for a mean.

    The weight is the covariance of ratings and scores over (1 + n / N) times the variance of all scores. If a case has
    several outputs, their sums per case are used, as outputs of one case are less informative than as many cases. It is
    0 with too few ratings, if all or all but one output (or case) are rated, and if the judge's scores are
    uninformative or negatively correlated.
    """
    return float(_weights_of(rated, np.ones((1, rated.n)))[0])


def fold_weights(rated: Rated) -> Floats:
    """Weight of the judge for each rated output, fitted without the output's case: (rated,), each 0..1.

    A weight fitted on the same ratings biases the corrected mean towards the better end of a skewed scale. Beyond
    `MOST_FOLDS` cases, as many parts of them are left out in turn.
    """
    _, codes = np.unique(np.arange(rated.n) if rated.cases is None else np.asarray(rated.cases), return_inverse=True)
    folds = codes.ravel() % MOST_FOLDS
    kept = folds != np.arange(folds.max(initial=-1) + 1)[:, None]
    return np.asarray(_weights_of(rated, kept.astype(np.float64))[folds], dtype=np.float64)


def corrected_mean(rated: Rated, levels: Levels | None = None, weights: Floats | None = None) -> Estimate:
    """The PPI++ mean, cross-fitted: the mean of rating - weight x (score - the judge's mean of the unrated outputs).

    levels: of the criterion, None if unknown. weights: result of `fold_weights`, if already known. If the judge gets no
    weight, the result is `rated_mean`.

    The interval is Wilson's, on the number of independent values that the mean is worth: value x (1 - value) over the
    variance, with Student's correction by the degrees of Welch and Satterthwaite. An interval around the mean misses
    means near an end of the scale on one side. If a case has rated and unrated outputs, the covariance of its residuals
    and scores is included. With levels, `UNSEEN` of a case more, spread over all cells of rating and score (Perks
    1947), stands for the errors that are too rare to be observed. Where hardly any rating differs from the most
    common one, the interval reaches at least as far as that of the ratings alone.
    """
    if rated.n < LEAST_RATED:
        return Estimate(None, None, None, f"found {counted(rated.n, 'rated output')}, expected {LEAST_RATED} or more")
    if weights is None:
        weights = fold_weights(rated)
    if not weights.any():
        return rated_mean(rated, levels)
    value = float((rated.ratings - weights * (rated.judged - rated.unrated.mean())).mean())
    interval = _corrected_interval(rated, levels, weights)
    if _has_few_others(rated):
        alone = _corrected_interval(rated, levels, np.zeros_like(weights))
        interval = _hull(interval, alone) if interval.is_known and alone.is_known else UNKNOWN
    return Estimate.of(float(np.clip(value, SCORES.low, SCORES.high)), interval)


def _has_few_others(rated: Rated) -> bool:
    values, counts = np.unique(rated.ratings, return_counts=True)
    cases = np.arange(rated.n) if rated.cases is None else np.asarray(rated.cases)
    others = np.unique(cases[rated.ratings != values[counts.argmax()]]).size
    return others < min(LEAST_OTHERS, LEAST_OTHER_SHARE * np.unique(cases).size)


def _corrected_interval(rated: Rated, levels: Levels | None, weights: Floats) -> Interval:
    """Interval of `corrected_mean`; weights of 0: of the mean rating alone."""
    weight = float(weights.mean())
    others_mean = float(rated.unrated.mean()) if weight else 0.0
    errors = rated.ratings - weights * (rated.judged - others_mean)
    residuals = measure_mean(errors, rated.cases)
    value = float(errors.mean())
    if residuals.unit_count < LEAST_RATED - (weight == 0.0) or (residuals.is_constant and levels is None):
        return UNKNOWN
    counts, case_count = np.ones(rated.n), float(residuals.unit_count)
    if levels is not None:
        unseen = np.repeat(levels, len(levels)) - weight * (np.tile(levels, len(levels)) - others_mean)
        errors = np.append(errors, unseen)
        counts = np.append(counts, np.full(unseen.size, UNSEEN * rated.n / case_count / unseen.size))
        case_count += UNSEEN
    n = counts.sum()
    centre = float(counts @ errors / n)
    variance = float(counts @ np.square(errors - centre) / (n - 1.0) / n) * _design_effect(residuals)
    if not weight:
        degrees = max(residuals.df, 1.0)
        exact = _exact_interval(value, residuals.standard_error**2, degrees, residuals.unit_count)
        return _hull(bounded_interval(centre, variance, degrees), exact)
    others = measure_mean(rated.unrated, rated.unrated_cases)
    if others.unit_count < 2:
        return UNKNOWN
    by_case = _influences(rated, errors[: rated.n])
    joint = np.square(by_case.own + weight * by_case.others)
    unrated_part = (weight * others.standard_error) ** 2 + 2.0 * weight * by_case.covariance
    total = max(variance + unrated_part, float(joint.sum()))
    # Welch's two samples are the cases with a rating, whatever else they have, and those without one.
    unrated, unrated_count = float(joint[~by_case.has_own].sum()), int((~by_case.has_own).sum())
    degrees = total**2 / ((total - unrated) ** 2 / max(residuals.df, 1.0) + unrated**2 / max(1, unrated_count - 1))
    observed = max(residuals.standard_error**2 + unrated_part, float(joint.sum()))
    exact = _exact_interval(value, observed, degrees, residuals.unit_count)
    return _hull(bounded_interval(centre, total, degrees), exact)


def _exact_interval(value: float, variance: float, degrees: float, unit_count: int) -> Interval:
    """Interval of a mean of this variance by its worth in trials."""
    of_rate = sqrt(value * (1.0 - value)) if 0.0 < value < 1.0 else 0.0
    parts = (unit_count, unit_count, value, of_rate, sqrt(variance), degrees)
    low, high = worth_ends(Means(*(np.array([float(each)]) for each in parts)))
    return Interval(float(low[0]), float(high[0]))


def _hull(one: Interval, other: Interval) -> Interval:
    return Interval(min(one.low, other.low), max(one.high, other.high))


def bounded_interval(value: float, variance: float, degrees: float) -> Interval:
    """Wilson's interval of a mean of scores in 0..1 with an estimated variance; NaN if that is 0."""
    if sqrt(variance) <= SPREAD_TOLERANCE:
        return UNKNOWN
    value = min(max(value, 1e-6), 1.0 - 1e-6)
    worth = value * (1.0 - value) / variance * (_t_quantile(inf) / _t_quantile(degrees)) ** 2
    return wilson(value * worth, worth)


def _influences(rated: Rated, own: Floats) -> Influences:
    """Influences of one value per rated output, and of the scores of the unrated ones."""
    return measure_influences(own, rated.unrated, rated.cases, rated.unrated_cases)


def _weights_of(rated: Rated, kept: Floats) -> Floats:
    """Weight of the judge by each part of the rated outputs: (part,). kept: (part, rated), 1 or 0, of whole cases."""
    unrated_count = rated.unrated.size if rated.unrated_cases is None else np.unique(rated.unrated_cases).size
    if rated.n < LEAST_RATED or unrated_count < 2:
        return np.zeros(len(kept))
    case_count = rated.n if rated.cases is None else np.unique(rated.cases).size
    is_clustered = case_count >= LEAST_RATED and rated.has_clusters
    covariances, variances = (_clustered_sums if is_clustered else _sums)(rated, kept)
    is_known = np.sqrt(np.maximum(variances, 0.0)) > SPREAD_TOLERANCE
    found: Floats = np.divide(covariances, variances, out=np.zeros(len(kept)), where=is_known)
    return np.clip(found, 0.0, 1.0)


def _sums(rated: Rated, kept: Floats) -> tuple[Floats, Floats]:
    """Covariance of ratings and scores, and (1 + n / N) times the variance of all scores: (part,) each."""
    centre = rated.judged.mean()
    ratings, judged, unrated = rated.ratings - rated.ratings.mean(), rated.judged - centre, rated.unrated - centre
    n, of_ratings, of_scores = kept.sum(axis=1), kept @ ratings, kept @ judged
    covariances = (kept @ (ratings * judged) - of_ratings * of_scores / np.maximum(n, 1.0)) / np.maximum(n - 1.0, 1.0)
    total = n + unrated.size
    squares, mean = kept @ np.square(judged) + np.square(unrated).sum(), (of_scores + unrated.sum()) / total
    return covariances, (1.0 + n / unrated.size) * (squares / total - np.square(mean))


def _clustered_sums(rated: Rated, kept: Floats) -> tuple[Floats, Floats]:
    """Sums over cases of a (b - c) and of (b - c)^2: (part,) each. Their ratio is the lambda of the least variance.

    a, b, c: contributions of a case to the mean rating, to the mean score of the rated outputs and to that of the
    others, as in `measure_influences`. The cluster-robust variance is that of a + lambda (c - b).
    """
    every = np.concatenate([np.asarray(rated.cases), np.asarray(rated.unrated_cases)])
    _, codes = np.unique(every, return_inverse=True)
    others = case_contributions(rated.unrated, codes[rated.n :], int(codes.max()) + 1)
    cases, first, codes = np.unique(codes[: rated.n], return_index=True, return_inverse=True)
    shares = kept[:, first] * np.bincount(codes) / kept.sum(axis=1, keepdims=True)  # (part, case)
    own = []
    for values in (rated.ratings, rated.judged):
        means = np.bincount(codes, values) / np.bincount(codes)
        own.append(shares * (means - (shares @ means)[:, None]) / np.sqrt(1.0 - shares))
    differences = own[1] - others[cases]
    rest = np.square(others).sum() - np.square(others[cases]).sum()
    return (own[0] * differences).sum(axis=1), np.square(differences).sum(axis=1) + rest


def _design_effect(mean: Mean) -> float:
    """Factor by which clusters increase the variance of a mean; at least 1."""
    plain = mean.sd**2 / mean.n
    return (
        1.0 if mean.unit_count == mean.n or plain <= SPREAD_TOLERANCE**2 else max(1.0, mean.standard_error**2 / plain)
    )


def ratings_to_halve(rated: Rated, corrected: Estimate, weight: float) -> tuple[int | None, str | None]:
    """Number of further ratings that would halve the interval of `corrected_mean`, or None with the reason.

    corrected, weight: results of `corrected_mean` and `judge_weight`. With n of M outputs rated, the variance is s^2
    ((1 - r^2) / n + r^2 / M), with s the ratings' standard deviation and r their correlation with the scores: one part
    that only ratings can reduce, and one that they cannot.
    """
    if corrected.width is None:
        return None, corrected.reason
    variance = rated.ratings.var(ddof=1)
    if sqrt(variance) <= SPREAD_TOLERANCE:
        return None, "the ratings are all equal"
    explained = 0.0 if weight == 0.0 else float(np.corrcoef(rated.ratings, rated.judged)[0, 1]) ** 2
    width_of = _widths(float(variance), explained, rated.total)
    target = width_of(rated.n) / 2.0
    if width_of(rated.total) > target:
        share = width_of(rated.total) / width_of(rated.n)
        return None, f"with all {rated.total:,} outputs rated it would still be {share:.0%} as wide"
    low, high = rated.n, rated.total  # the width of low is above the target, that of high is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width_of(middle) <= target else (middle, high)
    return high - rated.n, None


def selection_shift(rated: Rated) -> float | None:
    """Distance of the judge's means over rated and unrated outputs, in standard errors; None if unknown.

    Beyond `suspicious_shift`, the rated outputs are not a random sample, and neither `rated_mean` nor `corrected_mean`
    is valid.
    """
    sides = [measure_mean(rated.judged, rated.cases), measure_mean(rated.unrated, rated.unrated_cases)]
    if any(side.unit_count < 2 for side in sides):
        return None
    by_case = _influences(rated, rated.judged)
    error = float(np.linalg.norm(by_case.own - by_case.others))
    if error <= SPREAD_TOLERANCE:  # each side is all equal: the error of a random split is left
        every = np.append(rated.judged, rated.unrated)
        error = float(every.std()) * sqrt(sum(1.0 / side.unit_count for side in sides))
    return None if error <= SPREAD_TOLERANCE else (sides[0].mean - sides[1].mean) / error


def suspicious_shift(rated: Rated) -> float:
    """Bound of `selection_shift`, 2 to 3 standard errors: less with few ratings, which see only large shifts.

    Where a shift of half a standard deviation would be missed as often as a random sample would be suspected, up to a
    probability of 0.05 at 64 cases and fewer, and down to 0.003 at 144 and more.
    """
    case_count = rated.n if rated.cases is None else np.unique(np.asarray(rated.cases)).size
    return min(max(2.0, 0.25 * sqrt(case_count)), MOST_SHIFT)


def _widths(variance: float, explained: float, total: int) -> Callable[[int], float]:
    def width_of(n: int) -> float:
        return 2.0 * _t_quantile(n - 2.0) * sqrt(variance * ((1.0 - explained) / n + explained / total))

    return width_of


def _t_quantile(degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + LEVEL) / 2))
