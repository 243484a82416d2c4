"""Strengths of models from pairwise choices with ties: Davidson (1970), which is Bradley and Terry (1952) without ties.

Of a pair whose strengths differ by d, the second is chosen in proportion to exp(d / 2), the first to exp(-d / 2), and a
tie to a constant. A covariate of each pair, such as the difference of the outputs' log lengths, may be added to d.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import LEVEL
from gradebook.rubrics.statistics.reasons import Cause, Reason, reason_of

LEAST_CASES = 30  # bench/inference_pairs.py has the coverage from there
LEAST_LINKS = 5  # cases that join any part of the models to the others
MOST_STRENGTH = 10.0  # log odds: a larger estimate is on its way to infinity
ELO = 400.0 / log(10.0)
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices between two models' outputs; all arrays (choice,).

    firsts, seconds: numbers of the models, from 0. wins: 1 if the second was chosen, 0 if the first was, 0.5: a tie.
    cases: number of each one's case. covariate: None for none.
    """

    firsts: Codes
    seconds: Codes
    wins: Floats
    cases: Codes
    covariate: Floats | None = None


@dataclass(frozen=True, slots=True)
class Strength:
    """Strength of a model: its log odds in a decided choice against the average model, with its interval over cases.

    choice_count: choices in which it took part.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    choice_count: int

    @property
    def elo(self) -> float | None:
        """The strength as an Elo rating around 1,000, for display."""
        return None if self.value is None else 1000.0 + ELO * self.value


@dataclass(frozen=True, slots=True)
class Ranking:
    """Strengths by model, in their order. effect: of the covariate, per unit. reason: why figures are missing."""

    strengths: tuple[Strength, ...]
    effect: float | None = None
    reason: Reason | None = None


def rank_models(choices: Choices, model_count: int) -> Ranking:
    """Fit the strengths by maximum likelihood, with cluster-robust (sandwich) intervals over cases.

    There are no strengths if some models never lost to the others, as these would be infinite, even if they tied; and
    no intervals with fewer than `LEAST_CASES` cases, or where fewer than `LEAST_LINKS` cases join some models to the
    others: the difference between both parts rests on these alone.
    """
    counts = np.bincount(np.append(choices.firsts, choices.seconds), minlength=model_count)
    unknown = tuple(Strength(None, None, None, int(count)) for count in counts)
    if not _is_connected(choices, model_count):
        return Ranking(unknown, reason=Reason(Cause.NEVER_BEATEN))
    fit = _Fit(choices, model_count)
    values = fit.solve()
    if np.abs(values[:model_count]).max() > MOST_STRENGTH:
        return Ranking(unknown, reason=Reason(Cause.ONLY_TIED))
    centred = np.eye(model_count, fit.size) - np.append(np.ones(model_count), np.zeros(fit.size - model_count)) / (
        model_count
    )
    strengths = centred @ values
    case_count = np.unique(choices.cases).size
    effect = None if choices.covariate is None else float(values[model_count])
    if case_count < LEAST_CASES:
        without_intervals = [Strength(float(s), None, None, int(n)) for s, n in zip(strengths, counts, strict=True)]
        few = reason_of(Cause.FEW_RANKED_CASES, case_count=case_count, least=LEAST_CASES)
        return Ranking(tuple(without_intervals), effect, few)
    links = weakest_link(choices, model_count)
    if links < LEAST_LINKS:
        without_intervals = [Strength(float(s), None, None, int(n)) for s, n in zip(strengths, counts, strict=True)]
        return Ranking(
            tuple(without_intervals), effect, reason_of(Cause.THIN_LINK, link_count=links, least=LEAST_LINKS)
        )
    errors = np.sqrt(np.einsum("ij,jk,ik->i", centred, fit.variance(values), centred))
    from scipy.special import stdtrit

    margins = stdtrit(case_count - 1.0, (1.0 + LEVEL) / 2.0) * errors
    rows = zip(strengths, margins, counts, strict=True)
    return Ranking(tuple(Strength(float(s), float(s - m), float(s + m), int(n)) for s, m, n in rows), effect)


class _Fit:
    """Likelihood of choices. Parameters: strengths, the covariate's effect if any, log of the tie constant if any."""

    def __init__(self, choices: Choices, model_count: int) -> None:
        self._choices, n = choices, choices.wins.size
        columns = [np.zeros((n, model_count))]
        columns[0][np.arange(n), choices.seconds] += 1.0
        columns[0][np.arange(n), choices.firsts] -= 1.0
        if choices.covariate is not None:
            columns.append(choices.covariate[:, None])
        self._design = np.concatenate(columns, axis=1)
        self._is_tie = choices.wins == 0.5
        self._has_ties = bool(self._is_tie.any())
        self.size = self._design.shape[1] + self._has_ties

    def solve(self) -> Floats:
        """Maximum likelihood, by Newton's method; the strengths' sum, which is arbitrary, stays 0."""
        values = np.zeros(self.size)
        for _ in range(100):
            gradients, information = self._derivatives(values)
            step = np.linalg.lstsq(information, gradients.sum(axis=0), rcond=1e-10)[0]
            values += step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
            if np.abs(step).max() < 1e-12:
                break
        return values

    def variance(self, values: Floats) -> Floats:
        """Sandwich variance of the parameters, over cases."""
        gradients, information = self._derivatives(values)
        _, codes = np.unique(self._choices.cases, return_inverse=True)
        by_case = np.zeros((int(codes.max()) + 1, self.size))
        np.add.at(by_case, codes.ravel(), gradients)
        inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
        scale = len(by_case) / (len(by_case) - 1.0)
        covariance: Floats = inverse @ (by_case.T @ by_case * scale) @ inverse
        return covariance

    def _derivatives(self, values: Floats) -> tuple[Floats, Floats]:
        """Gradient of each choice, (choice, parameter), and the information, (parameter, parameter)."""
        width = self._design.shape[1]
        half = self._design @ values[:width] / 2.0
        tie = np.full(half.size, values[-1] if self._has_ties else -np.inf)
        logs = np.stack([-half, half, tie])
        shares = np.exp(logs - np.logaddexp.reduce(logs, axis=0))
        # Effects of d and of the tie constant on the log weights of the three outcomes.
        lean = np.where(self._is_tie, 0.0, self._choices.wins - 0.5) - (shares[1] - shares[0]) / 2.0
        gradients = self._design * lean[:, None]
        spread = (shares[0] + shares[1]) / 4.0 - ((shares[1] - shares[0]) / 2.0) ** 2
        information = (self._design * spread[:, None]).T @ self._design
        if not self._has_ties:
            return gradients, information
        gradients = np.column_stack([gradients, self._is_tie - shares[2]])
        cross = -self._design.T @ (shares[2] * (shares[1] - shares[0]) / 2.0)
        tie_information = float((shares[2] * (1.0 - shares[2])).sum())
        return gradients, np.block([[information, cross[:, None]], [cross[None, :], np.array([[tie_information]])]])


def _is_connected(choices: Choices, model_count: int) -> bool:
    """Whether every model lost or tied, directly or through others, against every other."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    winners = np.concatenate([choices.seconds[choices.wins > 0], choices.firsts[choices.wins < 1]])
    losers = np.concatenate([choices.firsts[choices.wins > 0], choices.seconds[choices.wins < 1]])
    edges = coo_array((np.ones(winners.size), (winners, losers)), shape=(model_count, model_count))
    return int(connected_components(edges, connection="strong")[0]) == 1


def weakest_link(choices: Choices, model_count: int) -> int:
    """Least number of pairs of case and models without which the models fall apart (Stoer and Wagner 1997)."""
    links = np.zeros((model_count, model_count))
    pairs = np.sort(np.stack([choices.firsts, choices.seconds]), axis=0)  # either order is the same link
    joined = np.unique(np.stack([choices.cases, *pairs]), axis=1)
    np.add.at(links, (joined[1], joined[2]), 1.0)
    links += links.T
    np.fill_diagonal(links, 0.0)
    left, least = list(range(model_count)), np.inf
    while len(left) > 1:
        order, weights = [left[0]], links[left[0]].copy()
        while len(order) < len(left):
            order.append(max((node for node in left if node not in order), key=lambda node: weights[node]))
            weights += links[order[-1]]
        last, before = order[-1], order[-2]
        least = min(least, float(links[last][[node for node in left if node != last]].sum()))
        links[before] += links[last]
        links[:, before] += links[:, last]
        links[before, before] = 0.0
        left.remove(last)
    return int(least)


def number_models(names: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], Codes, Codes]:
    """Models in order, and the numbers of the first and the second of each pair of names."""
    order = tuple(sorted({name for pair in names for name in pair}))
    numbers = {name: number for number, name in enumerate(order)}
    firsts, seconds = (np.array([numbers[pair[side]] for pair in names], dtype=np.int64) for side in (0, 1))
    return order, firsts, seconds
