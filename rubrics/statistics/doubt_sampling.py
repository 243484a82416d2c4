"""Outputs drawn for rating by the judge's doubt, and people's mean rating from such a sample.

Each output has an exponential key, divided by its weight; those with the lowest keys are rated first. Given the first
key that was not reached, an output was rated with the probability 1 - exp(-weight x that key), independently of the
others as far as sums go (bottom-k samples with rank conditioning, Cohen and Kaplan 2007). So the doubtful ones come
first and every one may come, and a rating weighted by its inverse probability stands for the outputs that were not
rated (active statistical inference, Zrnic and Candes 2024; prediction-powered as in `calibration`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.calibration import Estimate, bounded_interval
from gradebook.rubrics.statistics.intervals import SCORES, SPREAD_TOLERANCE, Interval, Means
from gradebook.rubrics.statistics.means import worth_ends
from gradebook.rubrics.statistics.reasons import Cause, reason_of

UNIFORM_SHARE = 0.5  # of the draws that do not look at the doubt: no rating stands for more than twice its share
LEAST_DRAWN = 30  # ratings: bench/inference_agreement.py has the coverage from there
FOLDS = 10  # the judge's weight is fitted without each of so many parts of the rated cases
UNSEEN = 0.5  # of a rating at either end of the scale: errors too rare to be observed


def doubt_keys(doubts: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Key of each output, the lowest first, and its weight, 1 on average. doubts: (output,), 0 or more."""
    mean = float(doubts.mean()) if doubts.size else 0.0
    weights = UNIFORM_SHARE + (1.0 - UNIFORM_SHARE) * (doubts / mean if mean > 0.0 else np.ones(doubts.size))
    return rng.exponential(size=doubts.size) / weights, weights


def inclusion_rates(keys: Floats, weights: Floats, is_reached: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Probability of each output to come before the first one that was not reached, and whether it does: (output,)."""
    end = keys[~is_reached].min(initial=np.inf)
    return -np.expm1(-weights * end), keys < end


@dataclass(frozen=True, slots=True)
class Drawn:
    """Scores of all outputs by the judge, and ratings of those drawn.

    judged: (output,). ratings: (output,), NaN where nobody rated. rates: (output,), the probability of a rating,
    over 0. cases: (output,), number of each one's case.
    """

    judged: Floats
    ratings: Floats
    rates: Floats
    cases: NDArray[np.int64]


def drawn_mean(drawn: Drawn) -> Estimate:
    """People's mean over all outputs: the judge's, corrected by its errors, each over its probability of a rating.

    The correction is self-normalised (Hajek). The judge's weight, 0..1, is that of the least variance, fitted without
    the case that it corrects. The interval counts cases; ratings that stand for many outputs lower its degrees of
    freedom (Kish). Half a rating at either end of the scale stands for errors too rare to be observed.
    """
    is_rated = ~np.isnan(drawn.ratings)
    count = int(is_rated.sum())
    if count < LEAST_DRAWN:
        return Estimate(None, None, None, reason_of(Cause.FEW_RATED, rated_count=count, least=LEAST_DRAWN))
    inverse = 1.0 / drawn.rates[is_rated]
    shares = inverse / inverse.sum()
    ratings, judged, mean = drawn.ratings[is_rated], drawn.judged[is_rated], float(drawn.judged.mean())
    weights = _fold_weights(ratings, judged - mean, shares, drawn.cases[is_rated])
    errors = ratings - weights * (judged - mean)
    value, weight = float(shares @ errors), float(weights.mean())
    _, codes = np.unique(drawn.cases, return_inverse=True)
    effects = weight * (drawn.judged - mean) / drawn.judged.size
    effects[is_rated] += shares * (errors - value)
    by_case = np.bincount(codes.ravel(), effects)
    case_count = np.unique(codes.ravel()[is_rated]).size
    worth = min(1.0 / float(shares @ shares), float(case_count))
    spread = float(by_case @ by_case) * case_count / max(case_count - 1, 1)
    unseen = UNSEEN * float(np.square(np.array([SCORES.low, SCORES.high]) - value).mean()) / (worth * (worth + UNSEEN))
    degrees = max(1.0, worth - 1.0)
    if spread <= SPREAD_TOLERANCE**2 and count == drawn.judged.size:
        return Estimate(value, value, value, None)
    interval = bounded_interval(value, spread + unseen, degrees)
    fields = (worth, worth, min(max(value, 0.0), 1.0), np.sqrt(spread * worth), np.sqrt(spread), degrees)
    low, high = worth_ends(Means(*(np.array([float(field)]) for field in fields)))
    hull = Interval(min(interval.low, float(low[0])), max(interval.high, float(high[0])))
    return Estimate.of(float(np.clip(value, SCORES.low, SCORES.high)), hull)


def _fold_weights(ratings: Floats, scores: Floats, shares: Floats, cases: ArrayLike) -> Floats:
    """Weight of the judge for each rated output, 0..1, fitted without the output's fold of cases."""
    _, codes = np.unique(cases, return_inverse=True)
    folds, weights = codes.ravel() % FOLDS, np.zeros(ratings.size)
    for fold in range(FOLDS):
        kept = folds != fold
        squares = np.square(shares[kept])  # the variance is that of a sum of weighted errors
        if not squares.any():
            continue
        centre_rating, centre_score = (shares[kept] @ values[kept] / shares[kept].sum() for values in (ratings, scores))
        offs = scores[kept] - centre_score
        variance = float(squares @ np.square(offs))
        if variance > SPREAD_TOLERANCE**2:
            weights[~kept] = float(squares @ (offs * (ratings[kept] - centre_rating))) / variance
    return np.clip(weights, 0.0, 1.0)
