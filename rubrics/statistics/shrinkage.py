"""Second opinion on few cases: differences of all criteria together, by a hierarchical model.

The true differences of the criteria are taken as normal around a common one, and their estimates as normal around
these, with the covariance of cases (Rubin 1981). The spread between criteria, tau, has a half-normal prior and is
integrated over a grid, the common difference has a flat one: no sampler is needed. Estimates of few cases are drawn
together as far as they do not show that the criteria differ. Normality is assumed, so rare heavy losses are not allowed
for: this decides nothing, and stands beside the intervals of `means`.
"""

from dataclasses import dataclass

import numpy as np

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import LEVEL, SPREAD_TOLERANCE

LEAST_CRITERIA, LEAST_CASES = 3, 5
TAU_SCALE = 0.25  # of the half-normal prior: criteria that differ by more than twice this are rare
GRID = 4.0 * TAU_SCALE * np.linspace(0.0, 1.0, 81) ** 2  # finer near 0
POOLED_DEGREES = 4.0  # by which the mean variance counts in each criterion's: few cases are often all equal


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Posterior of the differences: (criterion,), with 95% intervals, and the probability of a difference below 0.

    common: of the criteria in general, with its interval. tau: posterior mean of the spread between criteria.
    """

    plain: Floats
    values: Floats
    lows: Floats
    highs: Floats
    below: Floats
    common: tuple[float, float, float]
    tau: float
    case_count: int


def shrink_differences(differences: Floats) -> Shrunk | None:
    """Shrink mean differences. differences: (case, criterion), -1..1, NaN where a case lacks one.

    None with fewer than `LEAST_CRITERIA` criteria or `LEAST_CASES` cases of each, or if nothing varies.
    """
    from scipy.special import stdtr, stdtrit

    is_known = ~np.isnan(differences)
    counts = is_known.sum(axis=0)
    criterion_count = differences.shape[1]
    if criterion_count < LEAST_CRITERIA or counts.min() < LEAST_CASES:
        return None
    plain = np.nansum(differences, axis=0) / counts
    covariance = _covariance(np.where(is_known, differences - plain, 0.0), counts)
    if covariance is None:
        return None
    ones = np.ones(criterion_count)
    logs, means, variances, commons = [], [], [], []
    for tau in GRID:
        inverse = np.linalg.inv(covariance + (tau * tau + SPREAD_TOLERANCE**2) * np.eye(criterion_count))
        weight = float(ones @ inverse @ ones)
        common = float(ones @ inverse @ plain) / weight
        off, pull = plain - common, covariance @ inverse
        spread = pull @ ones
        log = np.linalg.slogdet(inverse)[1] - np.log(weight) - off @ inverse @ off - (tau / TAU_SCALE) ** 2
        logs.append(log / 2.0 + np.log(np.sqrt(tau) + 1e-9))  # as the steps of the grid
        means.append(plain - pull @ off)
        variances.append(np.diag(covariance - pull @ covariance) + np.square(spread) / weight)
        commons.append((common, 1.0 / weight))
    shares = np.exp(np.array(logs) - max(logs))
    shares /= shares.sum()
    values, errors = _mixed(shares, np.array(means), np.array(variances))
    centre, error = _mixed(shares, np.array(commons)[:, :1], np.array(commons)[:, 1:])
    degrees = float(counts.min() - 1)
    margin = float(stdtrit(degrees, (1.0 + LEVEL) / 2.0))
    lows, highs = (np.clip(values + side * margin * errors, -1.0, 1.0) for side in (-1, 1))
    of_all = float(centre[0]), float(centre[0] - margin * error[0]), float(centre[0] + margin * error[0])
    below = np.asarray(stdtr(degrees, -values / errors), dtype=np.float64)
    return Shrunk(plain, values, lows, highs, below, of_all, float(shares @ GRID), int(is_known.any(axis=1).sum()))


def _covariance(centred: Floats, counts: Floats) -> Floats | None:
    """Covariance of the means: variances drawn to their mean, and one correlation, as few cases show no more."""
    variances = np.square(centred).sum(axis=0) / (counts - 1.0) / counts
    if not variances.mean() > SPREAD_TOLERANCE**2:
        return None
    degrees = counts - 1.0
    pooled = (degrees * variances + POOLED_DEGREES * variances.mean()) / (degrees + POOLED_DEGREES)
    varied = centred[:, variances > SPREAD_TOLERANCE**2]
    correlation = 0.0
    if varied.shape[1] > 1:
        size = varied.shape[1]
        correlation = max(0.0, float(np.corrcoef(varied, rowvar=False).sum() - size) / (size * (size - 1)))
    errors = np.sqrt(pooled)
    matrix = np.full((errors.size, errors.size), min(correlation, 0.99))
    np.fill_diagonal(matrix, 1.0)
    covariance: Floats = matrix * np.outer(errors, errors)
    return covariance


def _mixed(shares: Floats, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of a mixture. means, variances: (part, criterion)."""
    mean = shares @ means
    return mean, np.sqrt(shares @ (variances + np.square(means - mean)))
