"""Outputs to rate next, and people's mean rating by other ways than PPI++.

Selection of outputs to rate next: spread over the judge's scores in proportion to all outputs.
Rating uncertain outputs first would reveal more about the judge, but would make the rated outputs unlike the others,
and the mean wrong. Here every output with a given score has the same probability, so intervals stay valid; and as each
score appears with its share, its sampling error disappears from the mean (Cochran 1977, proportional stratified
sampling).

Mean rating weighted by the judge's scores, for rated outputs that were not drawn at random.
Post-stratification (Cochran 1977, section 5A.9): the mean rating at each score of the judge, weighted by the share of
all outputs with that score. It is right if the outputs to rate were chosen by the judge's scores and by nothing else.

Mean on a criterion of two levels from the judge's error rates on each: Rogan and Gladen (1978).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.calibration import Estimate, Levels, Rated, bounded_interval
from gradebook.rubrics.statistics.intervals import LEVEL, SCORES, SPREAD_TOLERANCE, UNKNOWN, Interval, worth_of_rate
from gradebook.rubrics.statistics.reasons import Cause, Reason, reason_of

LEAST_IN_STRATUM = 3
POOLED = 2.0  # ratings by which the pooled variance counts in each stratum's: few ratings are often all equal


def post_stratified_mean(rated: Rated) -> Estimate:
    """Mean rating by score of the judge, weighted by the share of all outputs with that score.

    More than ten distinct scores are binned. None if a score that the judge gave has fewer than `LEAST_IN_STRATUM`
    ratings. The interval is cluster-robust over cases and Wilson's on the mean's worth, as in `corrected_mean`.
    """
    steps = score_steps(np.append(rated.judged, rated.unrated))
    rated_steps = steps[: rated.n]
    counts = np.bincount(rated_steps, minlength=int(steps.max()) + 1)
    if counts.min() < LEAST_IN_STRATUM:
        return Estimate(None, None, None, _missing(rated, steps, counts))
    shares = np.bincount(steps) / steps.size
    means = np.bincount(rated_steps, weights=rated.ratings) / counts
    value = float(shares @ means)
    return Estimate.of(value, bounded_interval(value, *_variance(rated, steps, shares, means, counts)))


def _missing(rated: Rated, steps: NDArray[np.intp], counts: NDArray[np.intp]) -> Reason:
    scores = np.append(rated.judged, rated.unrated)
    few = scores[counts[steps] < LEAST_IN_STRATUM]
    numbers = {"least": LEAST_IN_STRATUM, "low": float(few.min()), "share": few.size / scores.size}
    if np.ptp(few) <= SPREAD_TOLERANCE:
        return reason_of(Cause.FEW_AT_SCORE, **numbers)
    return reason_of(Cause.FEW_AT_SCORES, high=float(few.max()), **numbers)


def _variance(
    rated: Rated, steps: NDArray[np.intp], shares: Floats, means: Floats, counts: NDArray[np.intp]
) -> tuple[float, float]:
    """Variance of the mean and its degrees of freedom; both by case."""
    rated_steps = steps[: rated.n]
    residuals = rated.ratings - means[rated_steps]
    pooled = float(residuals @ residuals) / (rated.n - counts.size)
    plain = np.bincount(rated_steps, weights=np.square(residuals)) / (counts - 1.0)
    if sqrt(pooled) <= SPREAD_TOLERANCE:
        return 0.0, 1.0
    shrunk = ((counts - 1.0) * plain + POOLED * pooled) / (counts - 1.0 + POOLED)
    by_step = np.square(shares) * shrunk / counts
    # The outputs are a sample too: their scores' shares vary.
    centred = means - float(shares @ means)
    total = float(by_step.sum()) + float(shares @ np.square(centred)) / steps.size
    degrees = float(by_step.sum() ** 2 / (np.square(by_step) / (counts - 1.0 + POOLED)).sum())
    if not rated.has_clusters:
        return total, degrees
    every = np.concatenate([np.asarray(rated.cases), np.asarray(rated.unrated_cases)])
    _, codes = np.unique(every, return_inverse=True)
    contributions = centred[steps] / steps.size
    contributions[: rated.n] += shares[rated_steps] * residuals / np.sqrt(counts * (counts - 1.0))[rated_steps]
    case_count = np.unique(codes[: rated.n]).size
    by_case = np.bincount(codes.ravel(), weights=contributions)
    return max(total, float(by_case @ by_case) * case_count / max(1, case_count - 1)), min(degrees, case_count - 1.0)


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
    counts = {
        "high_count": int(is_high.sum()),
        "low_count": int((~is_high).sum()),
        "unrated_count": int(rated.unrated.size),
    }
    if not all(counts.values()):
        return Estimate(None, None, None, reason_of(Cause.LEVEL_UNSEEN, **counts))
    cases = None if rated.cases is None else np.asarray(rated.cases)[is_decided]
    sensitivity = _Rate.of(is_judged_high[is_high], None if cases is None else cases[is_high])
    specificity = _Rate.of(~is_judged_high[~is_high], None if cases is None else cases[~is_high])
    share = _Rate.of(rated.unrated > middle, rated.unrated_cases)
    if sensitivity.value + specificity.value <= 1.0:
        return Estimate(None, None, None, Reason(Cause.JUDGE_BY_CHANCE))
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


MOST_SCORES = 10  # strata per group; more distinct scores are binned into as many steps of equal size


def rate_next(scores: Floats, is_rated: NDArray[np.bool_], groups: ArrayLike, count: int, seed: int = 0) -> list[int]:
    """Indices of the outputs to rate next, at most count; every prefix of the list is balanced too.

    scores: (output,), the judge's. is_rated: (output,). groups: (output,), such as the model: each gets its share.
    Existing ratings count: a score with fewer ratings than its share gets more now.
    """
    if not scores.size or count < 1:
        return []
    strata = _strata(scores, groups)
    rng = np.random.default_rng(seed)
    rated_counts = np.bincount(strata[is_rated], minlength=strata.max() + 1)
    shares = np.bincount(strata) / strata.size
    order = rng.permutation(scores.size)
    order = order[~is_rated[order]]
    order = order[np.argsort(strata[order], kind="stable")]
    within = np.arange(order.size) - np.searchsorted(strata[order], strata[order], side="left")
    # Sample size at which an output is due: its stratum's share is used up by those before it.
    turns = (rated_counts[strata[order]] + within + 0.5) / shares[strata[order]]
    chosen: list[int] = order[np.argsort(turns, kind="stable")][:count].tolist()
    return chosen


def score_steps(scores: Floats) -> NDArray[np.intp]:
    """Step of each output, from 0: its score's rank among the distinct ones, or its bin if there are too many."""
    distinct = np.unique(scores)
    if distinct.size <= MOST_SCORES:
        return np.searchsorted(distinct, scores)
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, MOST_SCORES + 1)[1:-1]))
    _, steps = np.unique(np.searchsorted(edges, scores, side="right"), return_inverse=True)
    return steps.ravel()


def _strata(scores: Floats, groups: ArrayLike) -> NDArray[np.intp]:
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    _, strata = np.unique(codes.ravel() * (MOST_SCORES + 1) + score_steps(scores), return_inverse=True)
    flat: NDArray[np.intp] = strata.ravel()
    return flat
