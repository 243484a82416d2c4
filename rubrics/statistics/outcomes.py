"""Scores and outcomes in use: correlations, the weights that outcomes suggest, and what each criterion adds.

All figures come from the cases that suggest them. So they show no cause, and not what the scores would be worth on
other cases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import atanh, isnan, nan, sqrt, tanh

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import LEVEL, SPREAD_TOLERANCE, UNKNOWN, Interval

LEAST_CASES = 10
MOST_PARTS = 200  # of the jackknife
DRAWS = 500
SEED = 20_261_126
CLOSE = 0.999_999  # of a correlation: Fisher's z of 1 has no error


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation of two sides, -1..1, with its 95% interval; NaN where a side is constant or cases are few."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class SuggestedWeights:
    """Weights of a non-negative least-squares fit of an outcome by the criteria, as shares of their sum.

    shares: (criterion,), NaN for a constant criterion, and for all if no weight is above 0; intervals: 95%, by
    bootstrap of cases. r2_fit, r2_now: share of the outcome's variance that the fit explains, and the overall score as
    it is.
    """

    shares: Floats
    intervals: tuple[Interval, ...]
    r2_fit: float
    r2_now: float


def pearson(own: Floats, others: Floats, cases: NDArray[np.int64]) -> Correlation:
    """Pearson's correlation. own, others: (n,), no NaN. cases: (n,), of each value.

    The interval is Student's on Fisher's z, its error by a jackknife over cases, or over 200 groups of them.
    """
    return _correlate(_pearson, own, others, cases)


def spearman(own: Floats, others: Floats, cases: NDArray[np.int64]) -> Correlation:
    """Spearman's correlation, with arguments and interval as in `pearson`."""
    return _correlate(_spearman, own, others, cases)


def _correlate(
    measure: Callable[[Floats, Floats], float], own: Floats, others: Floats, cases: NDArray[np.int64]
) -> Correlation:
    _, codes = np.unique(cases, return_inverse=True)
    case_count = int(codes.max(initial=-1)) + 1
    value = measure(own, others)
    if case_count < LEAST_CASES or isnan(value) or abs(value) > CLOSE:
        return Correlation(value, UNKNOWN)
    part_count = min(case_count, MOST_PARTS)
    parts = np.random.default_rng(SEED).permutation(case_count)[codes] % part_count
    without_part = np.array([measure(own[parts != part], others[parts != part]) for part in range(part_count)])
    return Correlation(value, _jackknifed(value, without_part))


def suggest_weights(
    scores: Floats, overall: Floats, outcomes: Floats, cases: NDArray[np.int64]
) -> SuggestedWeights | None:
    """Weights with which the criteria would follow an outcome best, none below 0 (Lawson and Hanson 1974).

    scores: (n, criterion), overall, outcomes: (n,), higher is better; no NaN. cases: (n,). None with fewer cases than
    `LEAST_CASES`, or 5 for each criterion, a constant outcome, or fewer than two criteria that vary.
    """
    count = scores.shape[1]
    _, codes = np.unique(cases, return_inverse=True)
    case_count = int(codes.max(initial=-1)) + 1
    varies = np.ptp(scores, axis=0) > SPREAD_TOLERANCE if len(scores) else np.zeros(count, dtype=np.bool_)
    is_short = case_count < max(LEAST_CASES, 5 * count)
    if is_short or np.ptp(outcomes) <= SPREAD_TOLERANCE or varies.sum() < 2:
        return None
    rows = np.column_stack([np.ones(len(scores)), scores, outcomes])
    by_case = np.zeros((case_count, count + 2, count + 2))
    np.add.at(by_case, codes, rows[:, :, None] * rows[:, None, :])
    flat = by_case.reshape(case_count, -1)
    weights, r2 = _fit(flat.sum(axis=0).reshape(count + 2, count + 2))
    draws = np.random.default_rng(SEED).multinomial(case_count, np.full(case_count, 1 / case_count), DRAWS)
    drawn = np.array([_fit((draw @ flat).reshape(count + 2, count + 2))[0] for draw in draws])
    totals = drawn.sum(axis=1)
    defined = drawn[totals > 0] / totals[totals > 0, None]
    now = _pearson(overall, outcomes)
    if not weights.sum() or len(defined) < 0.95 * DRAWS:
        intervals = (UNKNOWN,) * count
    else:
        ends = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        pairs = zip(ends.T.tolist(), varies.tolist(), strict=True)
        intervals = tuple(Interval(*both) if is_shown else UNKNOWN for both, is_shown in pairs)
    shares = np.where(varies, weights / weights.sum() if weights.sum() else nan, nan)
    return SuggestedWeights(shares, intervals, r2, nan if isnan(now) else max(now, 0.0) ** 2)


def unique_shares(scores: Floats) -> Floats:
    """Share of each criterion's variance that the other criteria do not explain: 1 / VIF, (criterion,).

    scores: (n, criterion), no NaN. NaN for a constant criterion, and for all with fewer than 2 rows for a criterion.
    """
    shares = np.full(scores.shape[1], np.nan)
    varies = np.flatnonzero(scores.std(axis=0) > SPREAD_TOLERANCE) if len(scores) else np.zeros(0, dtype=np.int64)
    if not varies.size or len(scores) < 2 * varies.size + 2:
        return shares
    centred = scores[:, varies] - scores[:, varies].mean(axis=0)
    for column, criterion in enumerate(varies.tolist()):
        other_columns = np.delete(centred, column, axis=1)
        fitted = (
            other_columns @ np.linalg.lstsq(other_columns, centred[:, column], rcond=None)[0]
            if other_columns.shape[1]
            else 0.0
        )
        unexplained = np.square(centred[:, column] - fitted).sum() / np.square(centred[:, column]).sum()
        shares[criterion] = min(max(float(unexplained), 0.0), 1.0)
    return shares


def _fit(moments: Floats) -> tuple[Floats, float]:
    """Non-negative weights and R^2, from the sums of products of 1, the criteria and the outcome."""
    from scipy.optimize import nnls

    n, means = moments[0, 0], moments[0, 1:] / moments[0, 0]
    centred = moments[1:, 1:] / n - np.outer(means, means)
    of_scores, with_outcome, of_outcome = centred[:-1, :-1], centred[:-1, -1], float(centred[-1, -1])
    values, vectors = np.linalg.eigh(of_scores)
    is_kept = values > SPREAD_TOLERANCE
    if not is_kept.any() or of_outcome <= SPREAD_TOLERANCE:
        return np.zeros(len(with_outcome)), 0.0
    root = np.sqrt(values[is_kept])[:, None] * vectors[:, is_kept].T  # root' root = of_scores
    weights = nnls(root, (vectors[:, is_kept].T @ with_outcome) / np.sqrt(values[is_kept]))[0]
    explained = 2 * weights @ with_outcome - weights @ of_scores @ weights
    return weights, float(min(max(explained / of_outcome, 0.0), 1.0))


def _jackknifed(value: float, values: Floats) -> Interval:
    from scipy.special import stdtrit

    if np.isnan(values).any() or (np.abs(values) > CLOSE).any():
        return UNKNOWN
    z = np.arctanh(values)
    error = sqrt((z.size - 1) / z.size * float(np.square(z - z.mean()).sum()))
    margin = float(stdtrit(z.size - 1, (1 + LEVEL) / 2)) * error
    return Interval(tanh(atanh(value) - margin), tanh(atanh(value) + margin))


def _pearson(own: Floats, others: Floats) -> float:
    if own.size < 3:
        return nan
    a, b = own - own.mean(), others - others.mean()
    size = sqrt(float(a @ a) * float(b @ b))
    return float(np.clip(a @ b / size, -1.0, 1.0)) if size > SPREAD_TOLERANCE else nan


def _spearman(own: Floats, others: Floats) -> float:
    return _pearson(_ranks(own), _ranks(others))


def _ranks(values: Floats) -> Floats:
    """Mid-ranks."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[codes], dtype=np.float64)
