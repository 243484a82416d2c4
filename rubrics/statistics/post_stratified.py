"""Mean rating weighted by the judge's scores, for rated outputs that were not drawn at random.

Post-stratification (Cochran 1977, section 5A.9): the mean rating at each score of the judge, weighted by the share of
all outputs with that score. It is right if the outputs to rate were chosen by the judge's scores and by nothing else.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.calibration import Estimate, Rated, bounded_interval
from gradebook.rubrics.statistics.intervals import SPREAD_TOLERANCE
from gradebook.rubrics.statistics.rating_next import score_steps

LEAST_IN_STRATUM = 3
POOLED = 2.0  # ratings by which the pooled variance counts in each stratum's: few ratings are often all equal


def post_stratified_mean(rated: Rated) -> Estimate:
    """Mean rating by score of the judge, weighted by the share of all outputs with that score.

    More than ten distinct scores are binned. None if a score that the judge gave has fewer than `LEAST_IN_STRATUM`
    ratings. The interval is cluster-robust over cases and Wilson's on the mean's worth, as in `corrected_mean`.
    """
    steps = score_steps(np.append(rated.judged, rated.unrated))
    own = steps[: rated.n]
    counts = np.bincount(own, minlength=int(steps.max()) + 1)
    if counts.min() < LEAST_IN_STRATUM:
        return Estimate(None, None, None, _missing(rated, steps, counts))
    shares = np.bincount(steps) / steps.size
    means = np.bincount(own, weights=rated.ratings) / counts
    value = float(shares @ means)
    return Estimate.of(value, bounded_interval(value, *_variance(rated, steps, shares, means, counts)))


def _missing(rated: Rated, steps: NDArray[np.intp], counts: NDArray[np.intp]) -> str:
    scores = np.append(rated.judged, rated.unrated)
    few = scores[counts[steps] < LEAST_IN_STRATUM]
    where = f"{few.min():.3g}" if np.ptp(few) <= SPREAD_TOLERANCE else f"{few.min():.3g} to {few.max():.3g}"
    return (
        f"fewer than {LEAST_IN_STRATUM} ratings of outputs that the judge gave {where}, which are "
        f"{few.size / scores.size:.0%} of all: rate some of them, or those that --rate-next names"
    )


def _variance(
    rated: Rated, steps: NDArray[np.intp], shares: Floats, means: Floats, counts: NDArray[np.intp]
) -> tuple[float, float]:
    """Variance of the mean and its degrees of freedom; both by case."""
    own = steps[: rated.n]
    residuals = rated.ratings - means[own]
    pooled = float(residuals @ residuals) / (rated.n - counts.size)
    plain = np.bincount(own, weights=np.square(residuals)) / (counts - 1.0)
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
    parts = centred[steps] / steps.size
    parts[: rated.n] += shares[own] * residuals / np.sqrt(counts * (counts - 1.0))[own]
    case_count = np.unique(codes[: rated.n]).size
    by_case = np.bincount(codes.ravel(), weights=parts)
    return max(total, float(by_case @ by_case) * case_count / max(1, case_count - 1)), min(degrees, case_count - 1.0)
