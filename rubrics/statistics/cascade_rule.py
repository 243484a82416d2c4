"""Rule of a cascade chosen from the verdicts of both judges, so that its loss has a bound with a stated confidence.

The loss is the share of verdicts that differ from those of a second judge who is always asked. From the strictest rule
on, each next one is tested, and the last one that passes before the first that fails is taken (fixed-sequence testing,
"Trust or Escalate", arXiv 2407.18370). A test asks whether so few losses in n cases could come from a loss above the
target: exactly binomial where cases are lost or not, by Hoeffding and Bentkus ("Learn then Test", arXiv 2110.01052,
equation 9) where a case has several verdicts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, log
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import DIFFERENCES, SCORES, Interval
from gradebook.rubrics.statistics.means import score_interval

Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]
_FINE = (0.001, 0.002, 0.005, *(step / 100 for step in range(1, 101)))
_SHARES = tuple(round(1 - step, 3) for step in (0.0, *_FINE))
# Values of each rule, from the one that asks the second judge about most to the one that asks about least.
GRIDS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "share_below": _SHARES,
        "margin_below": _SHARES,
        "entropy_above": (0.0, *_FINE, *(1 + step / 10 for step in range(1, 40))),
        "near_threshold": _SHARES,
    }
)
ABOVE = ("entropy_above",)  # rules that ask where the measure is above the value, not below it
MOST_ROWS = 12  # of a frontier
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule of a cascade: the name of its setting, and the value."""

    name: str
    value: float

    def is_asked(self, doubts: Floats) -> Flags:
        """Whether the second judge is asked: (verdict,). doubts: the rule's measure, NaN where the first gave none."""
        is_met: Flags = doubts > self.value if self.name in ABOVE else doubts < self.value
        return is_met | np.isnan(doubts)


@dataclass(frozen=True, slots=True)
class JudgedTwice:
    """Verdicts by both judges on the same outputs and criteria: (verdict,) each.

    doubts: measures of the first judge's doubt by the name of their rule. is_other: whether the verdicts differ.
    is_gate: of a gate; is_other_gate: whether they differ in passing it. first, second: scores in 0..1, NaN without
    one. cases: number of each one's case. first_usd, second_usd: NaN where unknown. outputs: of each one's output.
    """

    doubts: Mapping[str, Floats]
    is_other: Flags
    is_gate: Flags
    is_other_gate: Flags
    first: Floats
    second: Floats
    cases: Codes
    first_usd: Floats
    second_usd: Floats
    outputs: Codes

    def where(self, is_chosen: Flags) -> "JudgedTwice":
        """Only some of the verdicts."""
        doubts = {name: values[is_chosen] for name, values in self.doubts.items()}
        arrays = (getattr(self, name)[is_chosen] for name in self.__slots__ if name != "doubts")
        return JudgedTwice(doubts, *arrays)

    @property
    def case_count(self) -> int:
        return int(np.unique(self.cases).size)


@dataclass(frozen=True, slots=True)
class Share:
    """Mean with its 95% interval over cases; NaN where there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """A rule on verdicts that did not choose it.

    asked: share of verdicts that the second judge is asked about. loss: share of verdicts that differ from always
    asking it; gate_loss: of gates, in passing, None without one. shift: of the mean score. usd: for 1,000 outputs, None
    where a price is unknown.
    """

    rule: Rule
    asked: float
    loss: Share
    gate_loss: Share | None
    shift: Share
    usd: float | None


@dataclass(frozen=True, slots=True)
class ChosenRule:
    """Rule with the frontier around it.

    chosen: None where no rule but always asking passes. case_count: of the cases that chose it, fresh_count: of those
    on which the frontier is measured. always_usd: always asking the second judge alone. needed_count: cases without any
    loss that would show the target.
    """

    target: float
    confidence: float
    chosen: Tradeoff | None
    frontier: tuple[Tradeoff, ...]
    case_count: int
    fresh_count: int
    always_usd: float | None
    needed_count: int


def loss_p_value(losses: Floats, target: float) -> float:
    """Largest chance of a mean loss this small in cases with a loss above the target. losses: (case,), each in 0..1."""
    from scipy.special import bdtr

    n = losses.size
    if not n:
        return 1.0
    total = float(losses.sum())
    if np.all((losses == 0.0) | (losses == 1.0)):
        return float(bdtr(total, n, target))
    mean = min(total / n, target)
    bentkus = exp(1.0) * float(bdtr(ceil(total - ROUNDING), n, target))
    return min(1.0, exp(-n * _divergence(mean, target)), bentkus)


def pass_in_order(losses: Sequence[Floats], target: float, alpha: float) -> int:
    """Number of rules, of some from the strictest on, that pass before the first one that fails."""
    for index, of_rule in enumerate(losses):
        if loss_p_value(of_rule, target) > alpha:
            return index
    return len(losses)


def choose_rule(
    pairs: JudgedTwice, target: float, confidence: float, rng: np.random.Generator, *, of_gates: bool = False
) -> ChosenRule:
    """Choose the rule that asks the second judge least on one half of the cases, drawn at random; measure on the other.

    Several kinds of rules share the chance of an error. of_gates: the loss is in passing gates, over gates alone.
    """
    counted = pairs.where(pairs.is_gate) if of_gates else pairs
    shuffled_cases = rng.permutation(np.unique(counted.cases))
    is_choosing = np.isin(counted.cases, shuffled_cases[: shuffled_cases.size // 2])
    choosing, fresh = counted.where(is_choosing), counted.where(~is_choosing)
    alpha = (1.0 - confidence) / max(len(counted.doubts), 1)
    candidates = [rule for name in counted.doubts if (rule := _most_lenient(choosing, name, target, alpha, of_gates))]
    best = min(candidates, key=lambda rule: rule.is_asked(choosing.doubts[rule.name]).mean(), default=None)
    rule_name = best.name if best else next(iter(counted.doubts))
    # Verdicts other than gates are measured too.
    measured = pairs.where(~np.isin(pairs.cases, shuffled_cases[: shuffled_cases.size // 2])) if of_gates else fresh
    return ChosenRule(
        target,
        confidence,
        measure_rule(measured, best) if best else None,
        _frontier(measured, rule_name),
        choosing.case_count,
        measured.case_count,
        _usd(measured.second_usd, measured.outputs),
        ceil(log(alpha) / log(1.0 - target)),
    )


def measure_rule(pairs: JudgedTwice, rule: Rule) -> Tradeoff:
    """Cost and loss of a rule on some verdicts."""
    is_asked = rule.is_asked(pairs.doubts[rule.name])
    is_known = ~np.isnan(pairs.second) & (is_asked | ~np.isnan(pairs.first))
    shifts = np.where(is_asked, 0.0, pairs.first - pairs.second)[is_known]
    gates = pairs.where(pairs.is_gate)
    lost = gates.is_other_gate & ~is_asked[pairs.is_gate]
    return Tradeoff(
        rule,
        float(is_asked.mean()) if is_asked.size else float("nan"),
        _share(by_case(pairs.is_other & ~is_asked, pairs.cases), SCORES),
        _share(by_case(lost, gates.cases), SCORES) if lost.size else None,
        _share(by_case(shifts, pairs.cases[is_known]), DIFFERENCES),
        _usd(pairs.first_usd + np.where(is_asked, pairs.second_usd, 0.0), pairs.outputs),
    )


def by_case(values: Floats | Flags, cases: Codes) -> Floats:
    """Mean of each case's values: (case,)."""
    _, codes = np.unique(cases, return_inverse=True)
    sums = np.bincount(codes, weights=np.asarray(values, dtype=np.float64))
    means: Floats = sums / np.maximum(np.bincount(codes), 1)
    return means


def _most_lenient(pairs: JudgedTwice, name: str, target: float, alpha: float, of_gates: bool) -> Rule | None:
    rules = [Rule(name, value) for value in GRIDS[name]]
    is_other = pairs.is_other_gate if of_gates else pairs.is_other
    asked_by_rule = [rule.is_asked(pairs.doubts[name]) for rule in rules]
    passed = pass_in_order([by_case(is_other & ~is_asked, pairs.cases) for is_asked in asked_by_rule], target, alpha)
    # The strictest of those that ask as much here: it is farthest from the doubts that it leaves to the first judge.
    alike = [rules[index] for index in range(passed) if (asked_by_rule[index] == asked_by_rule[passed - 1]).all()]
    return alike[0] if alike else None


def _frontier(pairs: JudgedTwice, name: str) -> tuple[Tradeoff, ...]:
    """Rules of one kind with different shares of second verdicts, at most `MOST_ROWS`, from the strictest."""
    rules = [Rule(name, value) for value in GRIDS[name]]
    asked_rates = (
        np.array([rule.is_asked(pairs.doubts[name]).mean() for rule in rules]) if pairs.cases.size else np.empty(0)
    )
    wanted = (
        [int(np.abs(asked_rates - share).argmin()) for share in np.linspace(1, 0, MOST_ROWS)]
        if asked_rates.size
        else []
    )
    return tuple(measure_rule(pairs, rules[index]) for index in dict.fromkeys(wanted))


def _share(values: Floats, bounds: Interval) -> Share:
    if not values.size:
        return Share(float("nan"), float("nan"), float("nan"))
    interval = score_interval(values, bounds=bounds)
    return Share(float(values.mean()), interval.low, interval.high)


def _usd(costs: Floats, outputs: Codes) -> float | None:
    count = np.unique(outputs).size
    total = float(costs.sum())
    return None if np.isnan(total) or not count else 1_000.0 * total / count


def _divergence(a: float, b: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    if b >= 1.0:
        return 0.0 if a >= 1.0 else inf
    first = a * log(a / b) if a > 0 else 0.0
    return first + (1 - a) * log((1 - a) / (1 - b)) if a < 1 else first
