"""Sequential stopping of a paired comparison: when to look, and the level of each look.

looks   group-sequential: alpha is spent over a planned number of looks (Lan and DeMets 1983)
always  an asymptotic confidence sequence: valid at any time (Waudby-Smith et al. 2024, "Time-uniform central limit
        theory and asymptotic confidence sequences")
suite   betting without replacement, see `bet_on_mean`: whether the whole suite would decide the same

A look is the test of `measure_difference` at its level, two-sided. The interval at the level of the look is the
repeated confidence interval (Jennison and Turnbull 1989): its 95% hold at every look together, and so at the one at
which the comparison stops. bench/stopping.py measures error rates and savings.

Betting on the mean of a whole suite of known size, of which the cases come in random order.
Of N values a gambler has seen t - 1. If their whole mean were m, the next one would be m_t = (N m - sum so far) /
(N - t + 1) on average. The wealth of bets against that, prod(1 + bet_t (x_t - m_t)), is a martingale, so it exceeds
1 / alpha, ever, with a probability of at most alpha (Ville; Waudby-Smith and Ramdas 2020, "Confidence sequences for
sampling without replacement"). The bets are those of aGRAPA (Waudby-Smith and Ramdas 2024). As the rest of the suite
gets smaller, it can outweigh what was seen less and less: so this decides earlier than a statement on further cases.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, e, log, log1p, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats, cluster_sums
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval, measure_mean
from gradebook.rubrics.statistics.means import count_moved, measure_difference
from gradebook.rubrics.statistics.series import MOST_FACTOR, REFERENCE_ALPHA, obf_spent

Kind = Literal["looks", "suite", "always"]
Spending = Literal["obf", "pocock"]
MOST_LOOKS = 100
LEAST_LEVEL = REFERENCE_ALPHA / MOST_FACTOR  # intervals of less are as wide as the scale
LEAST_CASES, GROWTH = 10, 0.04  # between looks that cost no level: 10 cases, later 4% more
TUNED_TO = 200  # cases at which the confidence sequence is narrowest
_FORECAST_CASES = 400_000  # drawn for a forecast, in all streams together
_NODES, _MOST_BOUND = 240, 40.0
STOP_EXPECTED = f"looks=N (2 to {MOST_LOOKS}), looks=N,pocock, suite or always"
_LOOKS = re.compile(r"looks=(\d{1,3})(?:,(obf|pocock))?")


@dataclass(frozen=True, slots=True)
class StopRule:
    """Rule by which a comparison stops. looks, spending: of the kind `looks`. alpha: of all looks, two-sided."""

    kind: Kind
    looks: int = 10
    spending: Spending = "obf"
    alpha: float = REFERENCE_ALPHA

    def ends(self, case_count: int) -> tuple[int, ...]:
        """Number of cases judged at each look; the last is case_count, 1 or more."""
        if self.kind == "looks":
            return tuple(sorted({ceil(case_count * look / self.looks) for look in range(1, self.looks + 1)}))
        counts, count = [], 0
        while count < case_count:
            count = min(case_count, count + max(LEAST_CASES, ceil(count * GROWTH)))
            counts.append(count)
        return tuple(counts)

    def levels(self, case_counts: Sequence[int] | NDArray[np.int64], case_count: int) -> Floats:
        """Two-sided level of the test at each look, (look,).

        case_counts: cases compared at each look, increasing. case_count: of all. The levels of a look do not depend on
        later ones.
        """
        counts = np.asarray(case_counts, dtype=np.float64)
        if self.kind == "looks":
            return np.maximum(
                levels_of_bounds(spending_bounds((counts / case_count).tolist(), self.spending, self.alpha)),
                LEAST_LEVEL,
            )
        return np.maximum(levels_of_bounds(sequence_bounds(counts, self.alpha)), LEAST_LEVEL)


def read_stop_rule(text: str) -> StopRule:
    """Rule of a command line: looks=N, looks=N,pocock, suite or always. Raises `ValueError`."""
    if text in ("suite", "always"):
        return StopRule("suite" if text == "suite" else "always")
    match = _LOOKS.fullmatch(text)
    if match is None or not 2 <= int(match[1]) <= MOST_LOOKS:
        raise ValueError(text)
    return StopRule("looks", int(match[1]), "pocock" if match[2] == "pocock" else "obf")


def spent(share: float, spending: Spending, alpha: float) -> float:
    """Level spent after a share (0..1) of the cases, two-sided."""
    if spending == "obf":
        return obf_spent(alpha, share)
    return alpha * log1p((e - 1) * min(max(share, 0.0), 1.0))


def spending_bounds(shares: Sequence[float], spending: Spending, alpha: float) -> Floats:
    """Bounds of |z| at looks after shares (0..1, increasing) of the information, (look,).

    By recursive integration of the density of the scores that have not stopped (Armitage, McPherson and Rowe 1969).
    """
    return np.array([_state_after(tuple(shares[:count]), spending, alpha).bound for count in range(1, len(shares) + 1)])


@dataclass(frozen=True, slots=True)
class _LookState:
    """State after the last look. points, density: (node,), of the scores that go on; density: times the weights."""

    bound: float
    points: Floats
    density: Floats


@lru_cache(maxsize=4 * MOST_LOOKS)
def _state_after(shares: tuple[float, ...], spending: Spending, alpha: float) -> _LookState:
    from scipy.optimize import brentq
    from scipy.special import ndtr

    if not shares:
        return _LookState(_MOST_BOUND, np.zeros(1), np.ones(1))
    earlier, (before, share) = _state_after(shares[:-1], spending, alpha), (0.0, *shares)[-2:]
    step, root = sqrt(share - before), sqrt(share)
    allowed = spent(share, spending, alpha) - spent(before, spending, alpha)

    def excess(bound: float) -> float:
        beyond = ndtr((earlier.points - bound * root) / step) + ndtr((-earlier.points - bound * root) / step)
        return float((earlier.density * beyond).sum()) - allowed

    bound = float(brentq(excess, 0.0, _MOST_BOUND, xtol=1e-9)) if excess(_MOST_BOUND) < 0 else _MOST_BOUND
    nodes, weights = _nodes()
    points = nodes * bound * root
    kernel = np.exp(-0.5 * ((points[:, None] - earlier.points) / step) ** 2) / (step * sqrt(2 * np.pi))
    return _LookState(bound, points, (kernel * earlier.density).sum(axis=1) * weights * bound * root)


@cache
def _nodes() -> tuple[Floats, Floats]:
    """Nodes and weights of the quadrature on -1..1."""
    return np.polynomial.legendre.leggauss(_NODES)


def sequence_bounds(case_counts: Floats, alpha: float, tuned_to: int = TUNED_TO) -> Floats:
    """Bounds of |z| of the confidence sequence at counts of cases, (look,): equation 14 of Waudby-Smith et al."""
    scale = (-2 * log(alpha) + log(-2 * log(alpha)) + 1) / tuned_to
    grown = case_counts * scale + 1
    return np.sqrt(2 * grown / (case_counts * scale) * np.log(np.sqrt(grown) / alpha))


def levels_of_bounds(bounds: Floats) -> Floats:
    """Two-sided levels of bounds of |z|."""
    from scipy.special import ndtr

    levels: Floats = 2 * ndtr(-bounds)
    return levels


@dataclass(frozen=True, slots=True)
class InterimAnalysis:
    """Outcome of looks up to the last one taken.

    n: pairs compared; mean, low, high: their mean difference with its 95% interval, which holds at every look (of the
    rule `suite`: the interval of the whole suite's mean difference); NaN with fewer than two cases. level: of the test
    at the last look. sign: on which side of the null the difference is, at the first look that decided; 0 if none did.
    decided_at: its number, from 1.
    """

    n: int
    mean: float
    low: float
    high: float
    level: float
    sign: int
    decided_at: int | None


def analyse_interim(
    rule: StopRule,
    ends: Sequence[int],
    positions: NDArray[np.int64],
    differences: Floats,
    case_count: int,
    bounds: Interval = DIFFERENCES,
    null: float = 0.0,
) -> InterimAnalysis:
    """Look at paired differences once for each end, as if they came in one block after the other.

    positions: (pair,), from 0, of the case in random order; pairs of one case or cluster share a position.
    differences: (pair,), no NaN. ends: first position after each look, increasing. case_count: cases of the whole
    comparison. bounds: of a difference. null: difference on whose side the looks decide: 0, or minus a margin.
    """
    seen_counts = [np.unique(positions[positions < end]).size for end in ends]
    counts = np.clip(np.maximum.accumulate(seen_counts), 1, case_count)
    is_new = np.diff(counts, prepend=0) > 0  # a look without new cases tests nothing
    levels = np.repeat(rule.levels(counts[is_new], case_count), np.diff([*np.flatnonzero(is_new), counts.size]))
    samples = [(differences[positions < end], positions[positions < end]) for end in ends]
    mean = measure_mean(*samples[-1])
    if rule.kind == "suite":
        sums, sizes = cluster_sums(*samples[-1])
        suite = bet_on_mean(sums / sizes, case_count, rule.alpha, bounds, null)
        low, high, signs = (
            suite.low,
            suite.high,
            [0, *(suite.signs[count - 1] if count else 0 for count in seen_counts)],
        )
    else:
        tested = [_interval(*sample, bounds, level) for sample, level in zip(samples, levels.tolist(), strict=True)]
        low, high = tested[-1].low, tested[-1].high
        signs = [0, *(1 if interval.low > null else -1 if interval.high < null else 0 for interval in tested)]
    decided_at = next((number for number, sign in enumerate(signs) if sign), None)
    sign = int(signs[decided_at or 0])
    return InterimAnalysis(mean.n, mean.mean, low, high, float(levels[-1]), sign, decided_at)


def _interval(differences: Floats, positions: NDArray[np.int64], bounds: Interval, level: float) -> Interval:
    mean, moved = measure_mean(differences, positions), count_moved(cluster_sums(differences, positions)[0])
    difference = measure_difference(mean, moved, bounds, chosen_from=REFERENCE_ALPHA / level)
    return Interval(float(difference.low), float(difference.high))


def expected_share(
    rule: StopRule, case_count: int, sd: float, difference: float, rng: np.random.Generator, null: float = 0.0
) -> float:
    """Mean share of cases that are judged, by simulation. sd: of the differences. null: as for `analyse_interim`."""
    ends = np.array(rule.ends(case_count))
    stream_count = int(np.clip(_FORECAST_CASES / case_count, 20, 1_000))
    drawn = np.clip(rng.normal(difference, sd, (stream_count, case_count)), -1.0, 1.0)
    if rule.kind == "suite":
        paths = wealth_paths((drawn + 1) / 2, case_count, np.full(stream_count, (null + 1) / 2))
        wealth = np.maximum(*(np.maximum.accumulate(path, axis=1)[:, ends - 1] for path in paths))
        is_decided = wealth >= log(2 / rule.alpha)
    else:
        z = (np.cumsum(drawn, axis=1)[:, ends - 1] / ends - null) * np.sqrt(ends) / sd
        is_decided = np.abs(z) >= _bounds_of_levels(rule.levels(ends, case_count))
    first = np.where(is_decided.any(axis=1), is_decided.argmax(axis=1), ends.size - 1)
    return float(ends[first].mean() / case_count)


def _bounds_of_levels(levels: Floats) -> Floats:
    from scipy.special import ndtri

    bounds: Floats = -ndtri(levels / 2)
    return bounds


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
    running_means = (_PRIOR_MEAN + sums) / (seen + 1)
    next_means = (_PRIOR_MEAN + sums + values) / (seen + 2)
    squares = np.cumsum((values - next_means) ** 2, axis=1)
    variance = (_PRIOR_VARIANCE + squares - (values - next_means) ** 2) / (seen + 1)
    gap = running_means - expected
    bets = gap / (variance + gap**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.clip(bets, 0.0, MOST_BET / np.maximum(expected, ROUNDING))
        down = np.clip(-bets, 0.0, MOST_BET / np.maximum(1.0 - expected, ROUNDING))
        grown = [np.log1p(up * (values - expected)), np.log1p(-down * (values - expected))]
    # The rest can't bring the mean there: the hypothesis is refuted. Rounding must not refute it.
    grown[0] = np.where(expected < -ROUNDING, np.inf, grown[0])
    grown[1] = np.where(expected > 1 + ROUNDING, np.inf, grown[1])
    above, below = (np.cumsum(growth, axis=1) for growth in grown)
    return above, below
