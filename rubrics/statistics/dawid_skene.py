"""Labels settled from several voices who err, each in a way of its own.

Dawid and Skene (1979), Applied Statistics 28, 20-28. Every unit has a true label; a voice gives a label by its row of
its confusion matrix. Both are estimated by EM from the shares of the given labels. Rows of the matrices have a weak
prior towards the true label, so that a label that a voice never saw makes no probability 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.counts import counted

LEAST_VOICES = 3  # two voices do not tell who of them is wrong
LEAST_UNITS = 100  # with labels by two voices or more: below, a majority is often as good (docs/ratings.md)
PRIOR_COUNT = 1.0  # labels that a row of a matrix starts from, half of them right
MOST_STEPS, CLOSE = 1_000, 1e-9
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SettledLabels:
    """Settled labels. shares: (level,), of the true labels. posteriors: (unit, level), probability of each label.

    confusions: (voice, true level, given level), rows sum to 1. reason: why there is no estimate; the arrays are empty.
    """

    shares: Floats
    posteriors: Floats
    confusions: Floats
    reason: str | None = None

    @property
    def accuracies(self) -> Floats:
        """Probability that each voice gives the true label: (voice,)."""
        found: Floats = np.einsum("vkk,k->v", self.confusions, self.shares)
        return found


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

    Every unit and voice has a statement; a voice may repeat itself. There is no estimate for fewer than `LEAST_VOICES`
    voices, or `least_units` units with two voices.
    """
    counts = np.zeros((int(units.max(initial=-1)) + 1, int(voices.max(initial=-1)) + 1, level_count))
    np.add.at(counts, (units, voices, labels), 1.0)
    if reason := _why_none(counts, least_units):
        return SettledLabels(np.empty(0), np.empty((0, level_count)), np.empty((0, level_count, level_count)), reason)
    prior = prior_count * (np.eye(level_count) / 2.0 + 1.0 / (2.0 * level_count))
    posteriors = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
    for _ in range(MOST_STEPS):
        shares = posteriors.mean(axis=0)
        confusions = np.einsum("uk,uvl->vkl", posteriors, counts) + prior
        totals = confusions.sum(axis=2, keepdims=True)
        confusions = np.divide(confusions, totals, out=np.zeros_like(confusions), where=totals > 0)
        found = _posteriors(counts, shares, confusions)
        is_close = np.abs(found - posteriors).max() < CLOSE
        posteriors = found
        if is_close:
            break
    return SettledLabels(shares, posteriors, confusions)


def _why_none(counts: Floats, least_units: int) -> str | None:
    has_label = counts.sum(axis=2) > 0
    voice_count = int(has_label.any(axis=0).sum())
    unit_count = int((has_label.sum(axis=1) >= 2).sum())
    if voice_count < LEAST_VOICES:
        return f"found {counted(voice_count, 'rater or judge', 'raters and judges')}, expected {LEAST_VOICES}"
    if unit_count < least_units:
        return f"found {counted(unit_count, 'output')} with two labels or more, expected {least_units}"
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
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found
