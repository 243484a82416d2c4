"""Sequential stopping of a paired comparison: when to look, and the level of each look.

looks   group-sequential: alpha is spent over a planned number of looks (Lan and DeMets 1983)
always  an asymptotic confidence sequence: valid at any time (Waudby-Smith et al. 2024, "Time-uniform central limit
        theory and asymptotic confidence sequences")
suite   betting without replacement, see `without_replacement`: would the whole suite have said so?

A look is the test of `measure_difference` at its level, two-sided. The interval at the level of the look is the
repeated confidence interval (Jennison and Turnbull 1989): its 95% hold at every look together, and so at the one at
which the comparison stops. bench/stopping.py measures error rates and savings.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, e, log, log1p, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.clusters import cluster_sums
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval, measure_mean
from gradebook.rubrics.statistics.mean_difference import count_moved, measure_difference
from gradebook.rubrics.statistics.series import MOST_FACTOR, REFERENCE_ALPHA, obf_spent
from gradebook.rubrics.statistics.without_replacement import bet_on_mean, wealth_paths

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
        found, count = [], 0
        while count < case_count:
            count = min(case_count, count + max(LEAST_CASES, ceil(count * GROWTH)))
            found.append(count)
        return tuple(found)

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
    found = _LOOKS.fullmatch(text)
    if found is None or not 2 <= int(found[1]) <= MOST_LOOKS:
        raise ValueError(text)
    return StopRule("looks", int(found[1]), "pocock" if found[2] == "pocock" else "obf")


def spent(share: float, spending: Spending, alpha: float) -> float:
    """Level spent after a share (0..1) of the cases, two-sided."""
    if spending == "obf":
        return obf_spent(alpha, share)
    return alpha * log1p((e - 1) * min(max(share, 0.0), 1.0))


def spending_bounds(shares: Sequence[float], spending: Spending, alpha: float) -> Floats:
    """Bounds of |z| at looks after shares (0..1, increasing) of the information, (look,).

    By recursive integration of the density of the scores that have not stopped (Armitage, McPherson and Rowe 1969).
    """
    return np.array([_looked(tuple(shares[:count]), spending, alpha).bound for count in range(1, len(shares) + 1)])


@dataclass(frozen=True, slots=True)
class _Looked:
    """State after a look. points, density: (node,), of the scores that go on; density: times the node's weight."""

    bound: float
    points: Floats
    density: Floats


@lru_cache(maxsize=4 * MOST_LOOKS)
def _looked(shares: tuple[float, ...], spending: Spending, alpha: float) -> _Looked:
    from scipy.optimize import brentq
    from scipy.special import ndtr

    if not shares:
        return _Looked(_MOST_BOUND, np.zeros(1), np.ones(1))
    earlier, (before, share) = _looked(shares[:-1], spending, alpha), (0.0, *shares)[-2:]
    step, root = sqrt(share - before), sqrt(share)
    allowed = spent(share, spending, alpha) - spent(before, spending, alpha)

    def excess(bound: float) -> float:
        beyond = ndtr((earlier.points - bound * root) / step) + ndtr((-earlier.points - bound * root) / step)
        return float((earlier.density * beyond).sum()) - allowed

    bound = float(brentq(excess, 0.0, _MOST_BOUND, xtol=1e-9)) if excess(_MOST_BOUND) < 0 else _MOST_BOUND
    nodes, weights = _nodes()
    points = nodes * bound * root
    kernel = np.exp(-0.5 * ((points[:, None] - earlier.points) / step) ** 2) / (step * sqrt(2 * np.pi))
    return _Looked(bound, points, (kernel * earlier.density).sum(axis=1) * weights * bound * root)


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

    found: Floats = 2 * ndtr(-bounds)
    return found


@dataclass(frozen=True, slots=True)
class Look:
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


def take_looks(
    rule: StopRule,
    ends: Sequence[int],
    positions: NDArray[np.int64],
    differences: Floats,
    case_count: int,
    bounds: Interval = DIFFERENCES,
    null: float = 0.0,
) -> Look:
    """Look at paired differences once for each end, as if they came in one block after the other.

    positions: (pair,), from 0, of the case in random order; pairs of one case or cluster share a position.
    differences: (pair,), no NaN. ends: first position after each look, increasing. case_count: cases of the whole
    comparison. bounds: of a difference. null: difference on whose side the looks decide: 0, or minus a margin.
    """
    found = [np.unique(positions[positions < end]).size for end in ends]
    counts = np.clip(np.maximum.accumulate(found), 1, case_count)
    is_new = np.diff(counts, prepend=0) > 0  # a look without new cases tests nothing
    levels = np.repeat(rule.levels(counts[is_new], case_count), np.diff([*np.flatnonzero(is_new), counts.size]))
    seen = [(differences[positions < end], positions[positions < end]) for end in ends]
    mean = measure_mean(*seen[-1])
    if rule.kind == "suite":
        sums, sizes = cluster_sums(*seen[-1])
        known = bet_on_mean(sums / sizes, case_count, rule.alpha, bounds, null)
        low, high, signs = known.low, known.high, [0, *(known.signs[count - 1] if count else 0 for count in found)]
    else:
        tested = [_interval(*each, bounds, level) for each, level in zip(seen, levels.tolist(), strict=True)]
        low, high = tested[-1].low, tested[-1].high
        signs = [0, *(1 if each.low > null else -1 if each.high < null else 0 for each in tested)]
    decided_at = next((number for number, sign in enumerate(signs) if sign), None)
    sign = int(signs[decided_at or 0])
    return Look(mean.n, mean.mean, low, high, float(levels[-1]), sign, decided_at)


def _interval(differences: Floats, positions: NDArray[np.int64], bounds: Interval, level: float) -> Interval:
    mean, moved = measure_mean(differences, positions), count_moved(cluster_sums(differences, positions)[0])
    found = measure_difference(mean, moved, bounds, chosen_from=REFERENCE_ALPHA / level)
    return Interval(float(found.low), float(found.high))


def expected_share(
    rule: StopRule, case_count: int, sd: float, difference: float, rng: np.random.Generator, null: float = 0.0
) -> float:
    """Mean share of cases that are judged, by simulation. sd: of the differences. null: as for `take_looks`."""
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

    found: Floats = -ndtri(levels / 2)
    return found
