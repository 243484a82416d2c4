"""Models of raters: their severity, and labels settled from several raters who err.

Severity of raters, and means that do not depend on who rated what.
A score is the unit's value plus the rater's severity (the additive model of a two-way analysis of variance, fitted by
least squares, so that ratings may be missing). A mean of values is then comparable between models that stricter raters
rated more often.

Labels settled from several sources of opinions (raters, judges), each with errors of its own.
Dawid and Skene (1979), Applied Statistics 28, 20-28. Every unit has a true label; a source gives a label by its row of
its confusion matrix. Both are estimated by EM from the shares of the given labels. Rows of the matrices have a weak
prior towards the true label, so that a label that a source never saw makes no probability 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import LEVEL, SCORES, Interval
from gradebook.rubrics.statistics.reasons import Cause, Reason, reason_of

LEAST_CASES = 20


@dataclass(frozen=True, slots=True)
class AdjustedMean:
    """Mean of a group of units: of the plain ratings, and adjusted for severity with its interval over cases.

    n: units. reason: why a figure is None.
    """

    n: int
    plain: float
    adjusted: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    reason: Reason | None = None


class SeverityFit:
    """Additive model of ratings. scores: (rater, unit), in 0..1, NaN where missing, one or more of each unit.

    cases: (unit,), number of each one's case, from 0.
    """

    def __init__(self, scores: Floats, cases: NDArray[np.int64]) -> None:
        is_rated = ~np.isnan(scores)
        rated, filled = is_rated.astype(np.float64), np.where(is_rated, scores, 0.0)
        counts = rated.sum(axis=0)
        self._means, self._shares = filled.sum(axis=0) / counts, rated / counts  # (unit,) and (rater, unit)
        order = np.argsort(cases, kind="stable")
        starts = np.flatnonzero(np.diff(cases[order], prepend=-1))
        self._units = np.split(order, starts[1:])  # of each case
        # Normal equations of the severities, with the units' values eliminated, of each case.
        self._laplacians = np.array([_laplacian(rated[:, units], counts[units]) for units in self._units])
        self._sums = np.array([(filled - rated * self._means)[:, units].sum(axis=1) for units in self._units])
        whole = self._laplacians.sum(axis=0)
        self.is_connected = bool(np.linalg.matrix_rank(whole, tol=1e-8) == len(scores) - 1)
        self._severities = _solve(whole, self._sums.sum(axis=0))
        # Severities without each case in turn: (case, rater).
        self._without = np.array(
            [
                _solve(whole - laplacian, self._sums.sum(axis=0) - sums)
                for laplacian, sums in zip(self._laplacians, self._sums, strict=True)
            ]
        )

    @property
    def severities(self) -> Floats | None:
        """Severity of each rater, (rater,), with the mean 0; below 0: stricter. None if some raters share no units."""
        return self._severities if self.is_connected else None

    def mean_of(self, is_in: NDArray[np.bool_]) -> AdjustedMean:
        """Mean of some units, (unit,), by the delete-one-case jackknife over all cases."""
        n, plain = int(is_in.sum()), float(self._means[is_in].mean())
        if not self.is_connected:
            return AdjustedMean(n, plain, None, reason=Reason(Cause.RATERS_APART))
        chosen = [units[is_in[units]] for units in self._units]
        counts = np.array([units.size for units in chosen])
        means = np.array([self._means[units].sum() for units in chosen])
        shares = np.array([self._shares[:, units].sum(axis=1) for units in chosen])
        value = float((means.sum() - shares.sum(axis=0) @ self._severities) / n)
        case_count = int((counts > 0).sum())
        if case_count < LEAST_CASES:
            reason = reason_of(Cause.FEW_CASES, case_count=case_count, least=LEAST_CASES)
            return AdjustedMean(n, plain, value, reason=reason)
        from scipy.special import stdtrit

        tops = means.sum() - means - ((shares.sum(axis=0) - shares) * self._without).sum(axis=1)
        means_without = tops / (n - counts)
        error = np.sqrt(
            (means_without.size - 1) / means_without.size * np.square(means_without - means_without.mean()).sum()
        )
        margin = float(stdtrit(case_count - 1.0, (1.0 + LEVEL) / 2.0) * error)
        interval = Interval(value - margin, value + margin).clipped(SCORES)
        return AdjustedMean(n, plain, value, interval.low, interval.high)


def _laplacian(rated: Floats, counts: Floats) -> Floats:
    laplacian: Floats = np.diag(rated.sum(axis=1)) - rated @ (rated / counts).T
    return laplacian


def _solve(laplacian: Floats, sums: Floats) -> Floats:
    severities: Floats = np.linalg.pinv(laplacian, rcond=1e-8, hermitian=True) @ sums
    return severities


LEAST_SOURCES = 3  # of two sources, either may be wrong
LEAST_UNITS = 300  # with labels by two sources or more: below, a majority is often better
LEAST_STATED = 0.9  # mean probability of the settled labels: below, a majority is better (docs/inference.md)
PRIOR_COUNT = 1.0  # labels that a row of a matrix starts from, half of them right
MOST_STEPS, CLOSE = 1_000, 1e-9
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SettledLabels:
    """Settled labels. shares: (level,), of the true labels. posteriors: (unit, level), probability of each label.

    confusions: (source, true level, given level), rows sum to 1. reason: why the arrays are empty.
    """

    shares: Floats
    posteriors: Floats
    confusions: Floats
    reason: Reason | None = None

    @property
    def accuracies(self) -> Floats:
        """Probability that each source gives the true label: (source,)."""
        accuracies: Floats = np.einsum("vkk,k->v", self.confusions, self.shares)
        return accuracies


def settle_labels(
    voices: Codes,
    units: Codes,
    labels: Codes,
    level_count: int,
    *,
    prior_count: float = PRIOR_COUNT,
    least_units: int = LEAST_UNITS,
) -> SettledLabels:
    """Settle the labels of all units. voices, units, labels: numbers from 0, (statement,).

    voices: source of each statement. Every unit and source has a statement; a source may repeat itself. There is no
    estimate for fewer than `LEAST_SOURCES` sources or `least_units` units with two sources, or with settled labels
    that the model itself states to be right in under `LEAST_STATED`: such sources err too often for it.
    """
    counts = np.zeros((int(units.max(initial=-1)) + 1, int(voices.max(initial=-1)) + 1, level_count))
    np.add.at(counts, (units, voices, labels), 1.0)
    if reason := _why_none(counts, least_units):
        return _none_settled(level_count, reason)
    prior = prior_count * (np.eye(level_count) / 2.0 + 1.0 / (2.0 * level_count))
    posteriors = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
    for _ in range(MOST_STEPS):
        shares = posteriors.mean(axis=0)
        confusions = np.einsum("uk,uvl->vkl", posteriors, counts) + prior
        totals = confusions.sum(axis=2, keepdims=True)
        confusions = np.divide(confusions, totals, out=np.zeros_like(confusions), where=totals > 0)
        updated = _posteriors(counts, shares, confusions)
        is_close = np.abs(updated - posteriors).max() < CLOSE
        posteriors = updated
        if is_close:
            break
    if (stated := float(posteriors.max(axis=1).mean())) < LEAST_STATED:
        return _none_settled(level_count, reason_of(Cause.LABELS_UNSURE, stated=stated, least=LEAST_STATED))
    return SettledLabels(shares, posteriors, confusions)


def _none_settled(level_count: int, reason: Reason) -> SettledLabels:
    return SettledLabels(np.empty(0), np.empty((0, level_count)), np.empty((0, level_count, level_count)), reason)


def _why_none(counts: Floats, least_units: int) -> Reason | None:
    has_label = counts.sum(axis=2) > 0
    voice_count = int(has_label.any(axis=0).sum())
    unit_count = int((has_label.sum(axis=1) >= 2).sum())
    if voice_count < LEAST_SOURCES:
        return reason_of(Cause.FEW_VOICES, voice_count=voice_count, least=LEAST_SOURCES)
    if unit_count < least_units:
        return reason_of(Cause.FEW_TWICE_LABELLED, output_count=unit_count, least=least_units)
    return None


def _posteriors(counts: Floats, shares: Floats, confusions: Floats) -> Floats:
    """Probability of each label of each unit, by Bayes' rule: (unit, level)."""
    with np.errstate(divide="ignore"):
        log_rows, log_shares = np.log(confusions), np.log(shares)
    # A probability of 0 counts only where it was observed: 0 x log 0 is 0.
    is_zero = np.isinf(log_rows)
    logs = np.einsum("uvl,vkl->uk", counts, np.where(is_zero, 0.0, log_rows)) + log_shares
    logs = np.where(np.einsum("uvl,vkl->uk", counts, is_zero.astype(np.float64)) > 0, -np.inf, logs)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    posteriors: Floats = weights / weights.sum(axis=1, keepdims=True)
    return posteriors
