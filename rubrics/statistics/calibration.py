"""Estimates of people's mean rating, from few of their ratings and many of a judge's scores.

PPI++ (Angelopoulos, Duchi and Zrnic 2023) corrects the judge's mean by its errors on the rated outputs, as far as the
judge is informative. It requires the rated outputs to be a random sample of all.

`corrected_sum` does the same for overall scores and their differences. An overall score is a weighted sum of criteria.
Each criterion that a judge scored is corrected by PPI++, with its own ratings and weight of the judge. The
contributions of a case to the errors of all criteria, and of both models of a difference, are summed before they are
squared: so the variance includes their covariances.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import (
    LEVEL,
    SCORES,
    SPREAD_TOLERANCE,
    UNKNOWN,
    Interval,
    Mean,
    Means,
    Shape,
    measure_mean,
    student_t,
    t_quantile,
    two_point_margin,
    unseen_share,
    wilson,
)
from gradebook.rubrics.statistics.means import score_interval, worth_ends
from gradebook.rubrics.statistics.reasons import Cause, Reason, reason_of


@dataclass(frozen=True, slots=True)
class Influences:
    """Contribution of each case in either set to each set's mean. All arrays: (case,).

    own, others: 0 if the set has no output of the case. has_own, has_others: whether the set has one.
    """

    own: Floats
    others: Floats
    has_own: NDArray[np.bool_]
    has_others: NDArray[np.bool_]

    @property
    def covariance(self) -> float:
        """Covariance of the two means; 0 if no case is in both sets."""
        return float(self.own @ self.others)


def measure_influences(
    own: Floats, others: Floats, own_cases: ArrayLike | None = None, other_cases: ArrayLike | None = None
) -> Influences:
    """Decompose two means by case.

    own, others: (n,) and (m,), the values. own_cases, other_cases: case of each; None: each value is a case of its own.
    Each set needs two or more cases. A case contributes the sum of its residuals over n, enlarged as in CR2 (Bell and
    McCaffrey 2002) for a model with one mean per set: divided by the root of 1 - its share of the set. So the sum of
    the squares of a x own + b x others is the variance of a times one mean plus b times the other.
    """
    codes = np.arange(own.size + others.size)
    if own_cases is not None and other_cases is not None:
        _, codes = np.unique(np.concatenate([np.asarray(own_cases), np.asarray(other_cases)]), return_inverse=True)
    of_own, of_others = codes[: own.size], codes[own.size :]
    case_count = int(codes.max()) + 1
    return Influences(
        case_contributions(own, of_own, case_count),
        case_contributions(others, of_others, case_count),
        np.bincount(of_own, minlength=case_count) > 0,
        np.bincount(of_others, minlength=case_count) > 0,
    )


def case_contributions(values: Floats, codes: NDArray[np.intp], case_count: int) -> Floats:
    """Contribution of each case to a mean, (case,), as in `measure_influences`. codes: case of each value, from 0."""
    sums = np.bincount(codes, weights=values - values.mean(), minlength=case_count)
    shares = np.bincount(codes, minlength=case_count) / values.size
    contributions: Floats = np.full(case_count, np.nan)  # of the only case of a set, too
    return np.divide(sums / values.size, np.sqrt(1.0 - shares), out=contributions, where=shares < 1.0)


Levels = Sequence[float]  # scores of a criterion's levels, ascending
LEAST_RATED = 3  # two values and the weight of the judge
MOST_FOLDS = 50  # the judge's weight is fitted without each of so many parts of the rated cases
# Rated cases with another rating than the most common one, and their share: below both, errors of a judge are too few.
LEAST_OTHERS, LEAST_OTHER_SHARE = 5, 0.2
MOST_SHIFT = 3.0  # standard errors, which a random sample exceeds in 0.3%
UNSEEN = 0.5  # of a case, spread over the levels: errors too rare to be observed


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated mean in 0..1. None if the mean or its interval is undefined; reason: the cause, a text if the
    caller gave it.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    reason: Reason | str | None

    @classmethod
    def of(cls, value: float | None, interval: Interval) -> "Estimate":
        """Mean with its interval; None without scores, and no interval if it is unknown (NaN)."""
        if value is None:
            return cls(None, None, None, Reason(Cause.NO_SCORES))
        if not interval.is_known:
            return cls(value, None, None, Reason(Cause.FEW_OUTPUTS))
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
        return Estimate(None, None, None, Reason(Cause.NONE_RATED))
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
    is_kept = folds != np.arange(folds.max(initial=-1) + 1)[:, None]
    return np.asarray(_weights_of(rated, is_kept.astype(np.float64))[folds], dtype=np.float64)


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
        return Estimate(None, None, None, reason_of(Cause.FEW_RATED, rated_count=rated.n, least=LEAST_RATED))
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
    other_count = np.unique(cases[rated.ratings != values[counts.argmax()]]).size
    return other_count < min(LEAST_OTHERS, LEAST_OTHER_SHARE * np.unique(cases).size)


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
    unrated_mean = measure_mean(rated.unrated, rated.unrated_cases)
    if unrated_mean.unit_count < 2:
        return UNKNOWN
    by_case = _influences(rated, errors[: rated.n])
    joint = np.square(by_case.own + weight * by_case.others)
    unrated_part = (weight * unrated_mean.standard_error) ** 2 + 2.0 * weight * by_case.covariance
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
    fields = (unit_count, unit_count, value, of_rate, sqrt(variance), degrees)
    low, high = worth_ends(Means(*(np.array([float(number)]) for number in fields)))
    return Interval(float(low[0]), float(high[0]))


def _hull(one: Interval, other: Interval) -> Interval:
    return Interval(min(one.low, other.low), max(one.high, other.high))


def bounded_interval(value: float, variance: float, degrees: float) -> Interval:
    """Wilson's interval of a mean of scores in 0..1 with an estimated variance; NaN if that is 0."""
    if sqrt(variance) <= SPREAD_TOLERANCE:
        return UNKNOWN
    value = min(max(value, 1e-6), 1.0 - 1e-6)
    worth = value * (1.0 - value) / variance * (t_quantile(inf) / t_quantile(degrees)) ** 2
    return wilson(value * worth, worth)


def _influences(rated: Rated, values: Floats) -> Influences:
    """Influences of one value per rated output, and of the scores of the unrated ones."""
    return measure_influences(values, rated.unrated, rated.cases, rated.unrated_cases)


def _weights_of(rated: Rated, masks: Floats) -> Floats:
    """Weight of the judge by each part of the rated outputs: (part,). masks: (part, rated), 1 or 0, of whole cases."""
    unrated_count = rated.unrated.size if rated.unrated_cases is None else np.unique(rated.unrated_cases).size
    if rated.n < LEAST_RATED or unrated_count < 2:
        return np.zeros(len(masks))
    case_count = rated.n if rated.cases is None else np.unique(rated.cases).size
    is_clustered = case_count >= LEAST_RATED and rated.has_clusters
    covariances, variances = (_clustered_sums if is_clustered else _sums)(rated, masks)
    is_known = np.sqrt(np.maximum(variances, 0.0)) > SPREAD_TOLERANCE
    weights: Floats = np.divide(covariances, variances, out=np.zeros(len(masks)), where=is_known)
    return np.clip(weights, 0.0, 1.0)


def _sums(rated: Rated, masks: Floats) -> tuple[Floats, Floats]:
    """Covariance of ratings and scores, and (1 + n / N) times the variance of all scores: (part,) each."""
    centre = rated.judged.mean()
    ratings, judged, unrated = rated.ratings - rated.ratings.mean(), rated.judged - centre, rated.unrated - centre
    n, of_ratings, of_scores = masks.sum(axis=1), masks @ ratings, masks @ judged
    covariances = (masks @ (ratings * judged) - of_ratings * of_scores / np.maximum(n, 1.0)) / np.maximum(n - 1.0, 1.0)
    total = n + unrated.size
    squares, mean = masks @ np.square(judged) + np.square(unrated).sum(), (of_scores + unrated.sum()) / total
    return covariances, (1.0 + n / unrated.size) * (squares / total - np.square(mean))


def _clustered_sums(rated: Rated, masks: Floats) -> tuple[Floats, Floats]:
    """Sums over cases of a (b - c) and of (b - c)^2: (part,) each. Their ratio is the lambda of the least variance.

    a, b, c: contributions of a case to the mean rating, to the mean score of the rated outputs and to that of the
    others, as in `measure_influences`. The cluster-robust variance is that of a + lambda (c - b).
    """
    every = np.concatenate([np.asarray(rated.cases), np.asarray(rated.unrated_cases)])
    _, codes = np.unique(every, return_inverse=True)
    unrated_contributions = case_contributions(rated.unrated, codes[rated.n :], int(codes.max()) + 1)
    cases, first, codes = np.unique(codes[: rated.n], return_index=True, return_inverse=True)
    shares = masks[:, first] * np.bincount(codes) / masks.sum(axis=1, keepdims=True)  # (part, case)
    contributions = []
    for values in (rated.ratings, rated.judged):
        means = np.bincount(codes, values) / np.bincount(codes)
        contributions.append(shares * (means - (shares @ means)[:, None]) / np.sqrt(1.0 - shares))
    differences = contributions[1] - unrated_contributions[cases]
    rest = np.square(unrated_contributions).sum() - np.square(unrated_contributions[cases]).sum()
    return (contributions[0] * differences).sum(axis=1), np.square(differences).sum(axis=1) + rest


def _design_effect(mean: Mean) -> float:
    """Factor by which clusters increase the variance of a mean; at least 1."""
    plain = mean.sd**2 / mean.n
    return (
        1.0 if mean.unit_count == mean.n or plain <= SPREAD_TOLERANCE**2 else max(1.0, mean.standard_error**2 / plain)
    )


def ratings_to_halve(rated: Rated, corrected: Estimate, weight: float) -> tuple[int | None, Reason | str | None]:
    """Number of further ratings that would halve the interval of `corrected_mean`, or None with the reason.

    corrected, weight: results of `corrected_mean` and `judge_weight`. With n of M outputs rated, the variance is s^2
    ((1 - r^2) / n + r^2 / M), with s the ratings' standard deviation and r their correlation with the scores: one part
    that only ratings can reduce, and one that they cannot.
    """
    if corrected.width is None:
        return None, corrected.reason
    variance = rated.ratings.var(ddof=1)
    if sqrt(variance) <= SPREAD_TOLERANCE:
        return None, Reason(Cause.RATINGS_EQUAL)
    explained = 0.0 if weight == 0.0 else float(np.corrcoef(rated.ratings, rated.judged)[0, 1]) ** 2
    width_of = _widths(float(variance), explained, rated.total)
    target = width_of(rated.n) / 2.0
    if width_of(rated.total) > target:
        share = width_of(rated.total) / width_of(rated.n)
        return None, reason_of(Cause.STILL_WIDE, total=rated.total, share=share)
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
        return 2.0 * t_quantile(n - 2.0) * sqrt(variance * ((1.0 - explained) / n + explained / total))

    return width_of


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

    def interval(self, bounds: Interval, level: float = LEVEL) -> Interval | None:
        """The t interval; None with too few rated cases, or if nothing varies.

        Degrees of freedom: those of the criterion with the fewest rated cases; fewer where few cases make most of the
        variance, as where the judge is rarely wrong: a variance of values of this kurtosis has no more (Satterthwaite).
        Each end is at least that of the two-point distribution with this variance and skewness, and
        allows for the share of cases, of the criterion where it matters most, in which the judge errs as far as it can
        and that so many rated cases can't show (`unseen_share`).
        """
        from scipy.special import stdtrit

        if self.fewest_rated < LEAST_RATED_CASES or self.standard_error <= SPREAD_TOLERANCE:
            return None
        squares = np.square(self.by_case) / self.standard_error**2
        spread = max(float(squares @ squares) - 1.0 / squares.size, 1e-12)
        degrees = max(1.0, min(self.fewest_rated - 1.0, 2.0 / spread))
        tail = (1.0 - level) / 2.0
        margin = -float(stdtrit(degrees, tail)) * self.standard_error
        units = float(self.fewest_rated)
        skewness = np.sqrt(units) * (self.by_case**3).sum() / self.standard_error**3
        shape = Shape(np.zeros(()), np.asarray(self.standard_error * np.sqrt(units - 1.0)), skewness, np.zeros(()))
        down, up = (
            max(margin, float(two_point_margin(shape, np.asarray(units), tail, 1.0, is_upper=is_up)))
            for is_up in (False, True)
        )
        for reach in self.reaches:
            share = float(unseen_share(reach.rated_count, tail))
            down, up = max(down, share * reach.fall), max(up, share * reach.rise)
        return Interval(self.value - down, self.value + up).clipped(bounds)


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of a criterion that need no correction. scores: (output,); cases: (output,), number of each one's case."""

    scores: Floats
    cases: Codes


def corrected_sum(criteria: Sequence[tuple[float, Rated | Scored]], case_count: int) -> CorrectedSum:
    """Weighted sum of the means of criteria. criteria: weight and scores of each; cases are numbers below case_count.

    A criterion with ratings of all outputs has people's mean. Raises `ValueError` for one without ratings, or without
    the numbers of its cases.
    """
    value, by_case, reaches = 0.0, np.zeros(case_count), []
    for weight, scores in criteria:
        if isinstance(scores, Scored):
            value += weight * float(scores.scores.mean())
            by_case += weight * case_contributions(scores.scores, scores.cases, case_count)
            continue
        mean, contributions, reach = _corrected(scores, case_count)
        value += weight * mean
        by_case += weight * contributions
        fall, rise = (abs(weight) * distance for distance in ((reach.fall, reach.rise)[:: 1 if weight > 0 else -1]))
        reaches.append(Reach(reach.rated_count, fall, rise))
    return CorrectedSum(value, by_case, tuple(reaches))


def _corrected(rated: Rated, case_count: int) -> tuple[float, Floats, Reach]:
    if rated.cases is None or rated.unrated_cases is None or not rated.n:
        raise ValueError("found no ratings or no numbers of cases, expected both")
    cases, unrated_cases = (np.asarray(codes, dtype=np.int64) for codes in (rated.cases, rated.unrated_cases))
    weights = fold_weights(rated)
    weight = float(weights.mean())
    errors = rated.ratings
    if weight:
        errors = rated.ratings - weights * (rated.judged - rated.unrated.mean())
    by_case = case_contributions(errors, cases, case_count)
    if weight:
        by_case = by_case + weight * case_contributions(rated.unrated, unrated_cases, case_count)
    mean, judged = float(errors.mean()), float(rated.unrated.mean()) if weight else 0.0
    # A rating of 0 with a judge's 1 is an error of -weight (1 - judged), one of 1 with 0 of 1 + weight judged.
    reach = Reach(np.unique(cases).size, mean + weight * (1.0 - judged), 1.0 + weight * judged - mean)
    return mean, by_case, reach
