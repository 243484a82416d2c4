"""Mean on a criterion of two levels from the judge's error rates on each: Rogan and Gladen (1978)."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.calibration import Estimate, Levels, Rated
from gradebook.rubrics.statistics.intervals import LEVEL, SCORES, SPREAD_TOLERANCE, UNKNOWN, Interval, worth_of_rate


@dataclass(frozen=True, slots=True)
class _Rate:
    """Rate in 0..1 and its effective number of independent outputs; NaN if unknown."""

    value: float
    n: float

    @classmethod
    def of(cls, is_met: NDArray[np.bool_], cases: ArrayLike | None) -> "_Rate":
        return cls(float(is_met.mean()), worth_of_rate(is_met, clusters=cases))


def rogan_gladen_mean(rated: Rated, levels: Levels) -> Estimate:
    """Mean on a criterion of two levels from the judge's sensitivity and specificity (Rogan and Gladen 1978).

    levels: the two levels' scores, ascending. A rating counts as the nearer level; one exactly in between, from raters
    who differ, is ignored. The interval is that of Lang and Reiczigel (2014), eqs. 6 to 17, for two error rates
    estimated from the rated outputs and a share from the others. If a case has several outputs, each of the three has
    the effective number of `worth_of_rate`.
    """
    low, high = levels
    middle = (low + high) / 2.0
    is_decided = np.abs(rated.ratings - middle) > SPREAD_TOLERANCE
    is_high, is_judged_high = rated.ratings[is_decided] > middle, rated.judged[is_decided] > middle
    counts = (int(is_high.sum()), int((~is_high).sum()), int(rated.unrated.size))
    if not all(counts):
        found = f"{counts[0]} and {counts[1]} outputs rated at the two levels and {counts[2]} unrated"
        return Estimate(None, None, None, f"found {found}, expected some of each")
    cases = None if rated.cases is None else np.asarray(rated.cases)[is_decided]
    sensitivity = _Rate.of(is_judged_high[is_high], None if cases is None else cases[is_high])
    specificity = _Rate.of(~is_judged_high[~is_high], None if cases is None else cases[~is_high])
    share = _Rate.of(rated.unrated > middle, rated.unrated_cases)
    if sensitivity.value + specificity.value <= 1.0:
        return Estimate(None, None, None, "the judge is no better than chance: sensitivity + specificity is 1 or less")
    value = (share.value + specificity.value - 1.0) / (sensitivity.value + specificity.value - 1.0)
    interval = _lang_reiczigel(share, sensitivity, specificity)
    ends = Interval(*(low + (high - low) * end for end in (interval.low, interval.high)))
    return Estimate.of(low + (high - low) * float(np.clip(value, 0.0, 1.0)), ends)


def _lang_reiczigel(share: _Rate, sensitivity: _Rate, specificity: _Rate) -> Interval:
    """Interval of a prevalence in 0..1."""
    from scipy.special import ndtri

    z = float(ndtri((1 + LEVEL) / 2))
    p, n = (share.value * share.n + z * z / 2.0) / (share.n + z * z), share.n + z * z
    se, sp = ((rate.value * rate.n + 1.0) / (rate.n + 2.0) for rate in (sensitivity, specificity))
    youden = se + sp - 1.0
    if not youden > 0.0:  # also for NaN
        return UNKNOWN
    prevalence = (p + sp - 1.0) / youden
    se_part, sp_part = se * (1.0 - se) / (sensitivity.n + 2.0), sp * (1.0 - sp) / (specificity.n + 2.0)
    shift = 2.0 * z * z * (prevalence * se_part - (1.0 - prevalence) * sp_part)
    variance = p * (1.0 - p) / n + prevalence**2 * se_part + (1.0 - prevalence) ** 2 * sp_part
    margin = z * sqrt(variance) / youden
    return Interval(prevalence + shift - margin, prevalence + shift + margin).clipped(SCORES)
