"""Whether a model may ship: each requirement of a rubric decided on the end of an interval, with its error rate.

A requirement is shown if the whole interval, of level 1 - 2 alpha, lies on its right side, refuted if it lies on the
wrong one, and otherwise undecided. A model may ship if all requirements are shown. A model at the limit of one of them
is let through with a probability of at most alpha, however many others there are (intersection-union test, Berger
1982). So no adjustment for many requirements is needed; each model has this error rate of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, hypot, isnan

import numpy as np

from gradebook.rubrics.model.rubric import ALPHA
from gradebook.rubrics.statistics.arrays import cluster_sums
from gradebook.rubrics.statistics.calibration import LEAST_RATED, Rated
from gradebook.rubrics.statistics.intervals import LEVEL, SCORES, Interval, Mean, measure_mean
from gradebook.rubrics.statistics.means import count_moved, measure_difference, score_interval, score_interval_of

TOLERANCE = 1e-9  # for rounding errors of a mean at its threshold
MOST_CASES = 10_000_000


class Ship(StrEnum):
    """Outcome of a requirement, and of all requirements of a model. NO_GATE: nothing is required."""

    MAY = "may ship"
    MAY_NOT = "may not ship"
    UNDECIDED = "undecided"
    NO_GATE = "no gate"


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of one requirement. interval: of the failure rate or the mean, 0..1.

    more_count: of an undecided one, further cases that decide it if they are like the ones so far; None: no number.
    """

    outcome: Ship
    interval: Interval
    more_count: int | None = None


def whole_outcome(outcomes: Iterable[Ship]) -> Ship:
    """Outcome of a model from those of its requirements: one refuted is enough, and all have to be shown."""
    present = set(outcomes)
    return next((outcome for outcome in (Ship.MAY_NOT, Ship.UNDECIDED, Ship.MAY) if outcome in present), Ship.NO_GATE)


def failure_interval(failed: float, trials: float, alpha: float = ALPHA, unknown: float = 0.0) -> Interval:
    """Exact interval of a failure rate (Clopper and Pearson 1934), of level 1 - 2 alpha; 0 of 20: 0 to 0.168.

    trials: independent ones, need not be whole. unknown: those of them without a verdict, which count as failures at
    the upper end and as passes at the lower. 0 to 1 without trials.
    """
    if trials <= 0.0:
        return SCORES
    from scipy.special import betaincinv

    most = min(failed + unknown, trials)
    low = 0.0 if failed <= 0.0 else float(betaincinv(failed, trials - failed + 1.0, alpha))
    high = 1.0 if most >= trials else float(betaincinv(most + 1.0, trials - most, 1.0 - alpha))
    return Interval(low, high)


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Rate of outputs that people would fail, 0..1, and its interval."""

    value: float
    interval: Interval


def failures_by_people(rated: Rated, alpha: float = ALPHA) -> FailureRate | None:
    """Failure rate with the judge's errors in it: the judge's rate, and the failures that it missed less those it made
    up, by the rated outputs.

    rated: 1 where an output fails, else 0; the rated outputs are a random sample. The interval, of level 1 - 2 alpha,
    has the exact one of the judge's rate and, of its errors, that of `measure_difference`, combined by MOVER (Zou and
    Donner 2008): so it allows for errors of which so few ratings show none. None with fewer than three rated cases.
    """
    level = 1.0 - 2.0 * alpha
    if not rated.unrated.size:
        return FailureRate(float(rated.ratings.mean()), score_interval(rated.ratings, rated.cases, level=level))
    errors = rated.ratings - rated.judged
    mean = measure_mean(errors, rated.cases)
    if mean.unit_count < LEAST_RATED:
        return None
    cases = None if rated.cases is None else np.asarray(rated.cases, dtype=np.int64)
    of_errors = measure_difference(mean, count_moved(cluster_sums(errors, cases)[0]), level=level)
    every = np.concatenate([rated.judged, rated.unrated])
    every_case = None
    if rated.cases is not None and rated.unrated_cases is not None:
        every_case = np.concatenate([np.asarray(rated.cases), np.asarray(rated.unrated_cases)])
    judged, of_judge = float(every.mean()), score_interval(every, every_case, level=level)
    value = judged + mean.mean
    low = value - hypot(judged - of_judge.low, mean.mean - float(of_errors.low))
    high = value + hypot(of_judge.high - judged, float(of_errors.high) - mean.mean)
    return FailureRate(min(max(value, 0.0), 1.0), Interval(low, high).clipped(SCORES))


def trials_behind(rate: float, high: float, n: int) -> float:
    """Effective number of trials of a rate, at most n, from the upper end of its 95% interval.

    Outputs of one case, or of a sample drawn by stratum, are worth fewer trials than there are outputs.
    """
    least, most = min(1.0, float(n)), float(n)
    if failure_interval(rate * most, most).high >= high:
        return most
    for _ in range(60):
        middle = (least + most) / 2.0
        is_wide = failure_interval(rate * middle, middle).high > high
        least, most = (middle, most) if is_wide else (least, middle)
    return least


def decide_failures(
    failed: float,
    trials: float,
    max_rate: float,
    *,
    alpha: float = ALPHA,
    unknown: float = 0.0,
    is_hard: bool = True,
    interval: Interval | None = None,
) -> Decision:
    """Decide on a gate. failed, trials, unknown: as of `failure_interval`; max_rate: the largest rate that may ship.

    is_hard: one known failure refutes the gate, and an unknown one leaves it undecided; else the interval alone
    decides. interval: of the rate, where it is measured otherwise, as with the judge's errors.
    """
    rate_interval = failure_interval(failed, trials, alpha, unknown) if interval is None else interval
    if is_hard and failed > 0:
        return Decision(Ship.MAY_NOT, rate_interval)
    outcome = _side(rate_interval, max_rate, is_upper=True)
    if outcome is Ship.MAY and is_hard and unknown > 0:
        return Decision(Ship.UNDECIDED, rate_interval)
    if outcome is not Ship.UNDECIDED or interval is not None or unknown > 0 or trials <= 0:
        return Decision(outcome, rate_interval)
    rate = failed / trials
    more = _smallest(
        lambda count: _side(failure_interval(rate * count, count, alpha), max_rate, is_upper=True),
        int(trials + TOLERANCE),
    )
    return Decision(outcome, rate_interval, more)


def decide_mean(mean: float, interval: Interval, threshold: float, unit_count: int, mean_low: float) -> Decision:
    """Decide on a mean that has to reach a threshold. interval: of level 1 - 2 alpha, missing scores at their worst.

    unit_count: cases or clusters. mean_low: the mean if each missing score were the lowest possible. The further cases
    follow from the margin, which shrinks with the root of their number.
    """
    if not interval.is_known:
        return Decision(Ship.UNDECIDED, interval)
    outcome = _side(interval, threshold, is_upper=False)
    if outcome is not Ship.UNDECIDED:
        return Decision(outcome, interval)
    distance = abs(mean - threshold)
    if mean_low < mean - TOLERANCE or distance <= TOLERANCE:
        return Decision(outcome, interval)
    margin = (mean - interval.low) if mean > threshold else (interval.high - mean)
    needed = ceil(unit_count * (margin / distance) ** 2)
    return Decision(outcome, interval, max(1, needed - unit_count) if needed <= MOST_CASES else None)


def interval_at(mean: Mean, low: float, high: float, alpha: float) -> Interval:
    """Interval of level 1 - 2 alpha from the ends of the 95% interval.

    Each margin is multiplied by the ratio that the margins of `score_interval_of` have for this n, mean and sd; so the
    ends are exact at the default alpha and close to exact elsewhere.
    """
    if abs(alpha - ALPHA) <= TOLERANCE or isnan(low):
        return Interval(low, high)
    default, wanted = (score_interval_of(mean, level=level) for level in (LEVEL, 1.0 - 2.0 * alpha))
    down, up = (
        (wanted_end - mean.mean) / (default_end - mean.mean) if default_end != mean.mean else 1.0
        for default_end, wanted_end in ((default.low, wanted.low), (default.high, wanted.high))
    )
    return Interval(mean.mean - (mean.mean - low) * down, mean.mean + (high - mean.mean) * up).clipped(SCORES)


def normal_interval_at(value: float, low: float, high: float, alpha: float) -> Interval:
    """Interval of level 1 - 2 alpha from the ends of a 95% interval whose margins go with the normal quantile."""
    if abs(alpha - ALPHA) <= TOLERANCE:
        return Interval(low, high)
    from scipy.special import ndtri

    ratio = float(ndtri(1.0 - alpha) / ndtri(1.0 - ALPHA))
    return Interval(value - (value - low) * ratio, value + (high - value) * ratio).clipped(SCORES)


def filled_interval(scored: Mean, missing_count: int, fill: float, alpha: float) -> Interval:
    """Interval of the mean if `missing_count` further values were `fill`, of level 1 - 2 alpha.

    scored: the mean of the others, whose outputs of one cluster count as equal, which is the widest they can be.
    """
    n = scored.n + missing_count
    mean = (scored.n * scored.mean + missing_count * fill) / n
    squares = (scored.n - 1) * scored.sd**2 if scored.n >= 2 else 0.0
    squares += scored.n * (scored.mean - mean) ** 2 + missing_count * (fill - mean) ** 2
    units = min(n, max(scored.unit_count, round(scored.unit_count * n / max(scored.n, 1))))
    sd = (squares / max(n - 1, 1)) ** 0.5
    return score_interval_of(Mean(n, units, mean, sd, sd / units**0.5, units - 1.0), level=1.0 - 2.0 * alpha)


def _side(interval: Interval, limit: float, *, is_upper: bool) -> Ship:
    """Side of a limit on which an interval lies. is_upper: the value has to be at most the limit, else at least."""
    if is_upper:
        return Ship.MAY if interval.high <= limit + TOLERANCE else _refuted(interval.low > limit + TOLERANCE)
    return Ship.MAY if interval.low >= limit - TOLERANCE else _refuted(interval.high < limit - TOLERANCE)


def _refuted(is_refuted: bool) -> Ship:
    return Ship.MAY_NOT if is_refuted else Ship.UNDECIDED


def _smallest(outcome_of: Callable[[int], Ship], count: int) -> int | None:
    """Smallest number beyond `count` that decides; None if none up to `MOST_CASES` does."""
    least, most = count, 2 * max(count, 1)
    while outcome_of(most) is Ship.UNDECIDED:
        if most > MOST_CASES:
            return None
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if outcome_of(middle) is Ship.UNDECIDED else (least, middle)
    return most - count
