"""The mean on a criterion of two levels by how often the judge errs on each: Rogan and Gladen (1978)."""

from math import sqrt

import numpy as np

from rubrics.statistics.calibration import Estimate, Levels, Rated
from rubrics.statistics.intervals import LEVEL, SCORES, SPREAD_TOLERANCE, UNKNOWN, Interval


def rogan_gladen_mean(rated: Rated, levels: Levels) -> Estimate:
    """The mean on a criterion of two levels by the judge's sensitivity and specificity (Rogan and Gladen 1978).

    levels: the two levels' scores, ascending. A rating counts to the nearer level; one half way between, of raters who
    differ, counts nowhere. The interval is that of Lang and Reiczigel (2014), eqs. 6 to 17, for two error rates
    estimated from the rated outputs and a share from the others.
    """
    low, high = levels
    middle = (low + high) / 2.0
    is_told = np.abs(rated.ratings - middle) > SPREAD_TOLERANCE
    is_high, is_judged_high = rated.ratings[is_told] > middle, rated.judged[is_told] > middle
    counts = (int(is_high.sum()), int((~is_high).sum()), int(rated.unrated.size))
    if not all(counts):
        found = f"{counts[0]} and {counts[1]} outputs rated at the two levels and {counts[2]} unrated"
        return Estimate(None, None, None, f"found {found}, expected some of each")
    sensitivity = float(is_judged_high[is_high].mean())
    specificity = float((~is_judged_high[~is_high]).mean())
    share = float((rated.unrated > middle).mean())
    if sensitivity + specificity <= 1.0:
        return Estimate(None, None, None, "the judge is no better than chance: sensitivity + specificity is 1 or less")
    value = (share + specificity - 1.0) / (sensitivity + specificity - 1.0)
    interval = _lang_reiczigel((share, counts[2]), (sensitivity, counts[0]), (specificity, counts[1]))
    ends = Interval(*(low + (high - low) * end for end in (interval.low, interval.high)))
    return Estimate.of(low + (high - low) * float(np.clip(value, 0.0, 1.0)), ends)


def _lang_reiczigel(
    share: tuple[float, int], sensitivity: tuple[float, int], specificity: tuple[float, int]
) -> Interval:
    """The interval on a prevalence in 0..1. Each argument: a rate and the number of outputs it is of."""
    from scipy.special import ndtri

    z = float(ndtri((1 + LEVEL) / 2))
    p, n = (share[0] * share[1] + z * z / 2.0) / (share[1] + z * z), share[1] + z * z
    se, sp = ((rate * count + 1.0) / (count + 2.0) for rate, count in (sensitivity, specificity))
    youden = se + sp - 1.0
    if youden <= 0.0:
        return UNKNOWN
    prevalence = (p + sp - 1.0) / youden
    se_part, sp_part = se * (1.0 - se) / (sensitivity[1] + 2.0), sp * (1.0 - sp) / (specificity[1] + 2.0)
    shift = 2.0 * z * z * (prevalence * se_part - (1.0 - prevalence) * sp_part)
    variance = p * (1.0 - p) / n + prevalence**2 * se_part + (1.0 - prevalence) ** 2 * sp_part
    margin = z * sqrt(variance) / youden
    return Interval(prevalence + shift - margin, prevalence + shift + margin).clipped(SCORES)
