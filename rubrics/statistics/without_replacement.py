"""Betting on the mean of a whole suite of known size, of which the cases come in random order.

Of N values a gambler has seen t - 1. If their whole mean were m, the next one would be m_t = (N m - sum so far) /
(N - t + 1) on average. The wealth of bets against that, prod(1 + bet_t (x_t - m_t)), is a martingale, so it exceeds
1 / alpha, ever, with a probability of at most alpha (Ville; Waudby-Smith and Ramdas 2020, "Confidence sequences for
sampling without replacement"). The bets are those of aGRAPA (Waudby-Smith and Ramdas 2024). As the rest of the suite
gets smaller, it can outweigh what was seen less and less: so this decides earlier than a statement on further cases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval

MOST_BET = 0.6  # of the wealth that a bet can lose at most
PRECISION = 1e-4  # of an interval's end, on the scale 0..1
ROUNDING = 1e-9  # error of a sum of floats
_PRIOR_MEAN, _PRIOR_VARIANCE = 0.5, 1 / 16  # of one value before the first, on the scale 0..1


@dataclass(frozen=True, slots=True)
class SuiteMean:
    """Mean of a whole suite, of which some cases are known. low, high: its interval, which holds at any time.

    signs: (case,), side of the null on which the mean is, as decided after each case, 0 before. Its ends are beyond the
    null only where that is decided. Of the whole suite the mean is known.
    """

    low: float
    high: float
    signs: NDArray[np.int64]


def bet_on_mean(
    values: Floats, total: int, alpha: float, bounds: Interval = DIFFERENCES, null: float = 0.0
) -> SuiteMean:
    """Interval at 1 - alpha of the mean of a suite, and on which side of the null it is.

    values: (case,), the first cases in random order. total: number of cases of the suite. bounds: of a value.
    """
    scale = bounds.high - bounds.low
    scaled, total = (values - bounds.low) / scale, max(total, values.size)
    limit = log(2 / alpha)

    def won(mean: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        above, below = wealth_paths(scaled[None, :], total, np.array([mean]))
        return above[0] >= limit, below[0] >= limit

    is_positive, is_negative = won((null - bounds.low) / scale)
    signs = np.zeros(values.size, np.int64)
    if (has_won := is_positive | is_negative).any():
        first = int(has_won.argmax())
        signs[first:] = 1 if is_positive[first] else -1
    if values.size == total:  # nothing is left to guess
        mean = float(values.mean())
        signs[-1] = signs[-1] or np.sign(0.0 if abs(mean - null) < ROUNDING else mean - null)
        return SuiteMean(mean, mean, signs)
    middle = float(np.clip(scaled.mean(), 0.0, 1.0)) if values.size else 0.5
    low = bounds.low + scale * _end(0.0, middle, lambda mean: bool(won(mean)[0].any()))
    high = bounds.low + scale * _end(1.0, middle, lambda mean: bool(won(mean)[1].any()))
    low = max(low, null) if is_positive.any() else min(low, null)
    return SuiteMean(low, min(high, null) if is_negative.any() else max(high, null), signs)


def _end(far: float, near: float, is_refuted: Callable[[float], bool]) -> float:
    """Mean between one that may be refuted and one that is not, up to which all are: by bisection, rounded outwards."""
    if not is_refuted(far):
        return far
    while abs(near - far) > PRECISION:
        middle = (far + near) / 2
        far, near = (middle, near) if is_refuted(middle) else (far, middle)
    return far


def wealth_paths(values: Floats, total: int, means: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the wealth after each case, (sample, case), of gamblers who bet that the mean is above, and below.

    values: (sample, case), 0..1. total: number of cases of the suite. means: (sample,), of the hypothesis.
    """
    count = values.shape[1]
    seen = np.arange(count)
    sums = np.cumsum(values, axis=1) - values  # before each case
    expected = (total * means[:, None] - sums) / (total - seen)
    found = (_PRIOR_MEAN + sums) / (seen + 1)
    next_found = (_PRIOR_MEAN + sums + values) / (seen + 2)
    squares = np.cumsum((values - next_found) ** 2, axis=1)
    variance = (_PRIOR_VARIANCE + squares - (values - next_found) ** 2) / (seen + 1)
    gap = found - expected
    bets = gap / (variance + gap**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.clip(bets, 0.0, MOST_BET / np.maximum(expected, ROUNDING))
        down = np.clip(-bets, 0.0, MOST_BET / np.maximum(1.0 - expected, ROUNDING))
        grown = [np.log1p(up * (values - expected)), np.log1p(-down * (values - expected))]
    # The rest can't bring the mean there: the hypothesis is refuted. Rounding must not refute it.
    grown[0] = np.where(expected < -ROUNDING, np.inf, grown[0])
    grown[1] = np.where(expected > 1 + ROUNDING, np.inf, grown[1])
    above, below = (np.cumsum(each, axis=1) for each in grown)
    return above, below
