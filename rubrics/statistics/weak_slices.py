"""Test of a slice of the outputs against the others: is its mean lower than chance explains?

Were the slice's outputs drawn at random, its mean would have the distribution of a sample without replacement. Its
variance and skewness follow from those of all scores; its tail is that of Pearson's type III with both (Mielke and
Berry 2007, Permutation Methods). Skewness matters: near the ceiling a few low scores make the lower tail heavy.
"""

import numpy as np

from gradebook.rubrics.model.arrays import Floats

_NORMAL_SKEWNESS = 1e-4  # below this, the distribution equals the normal one to 5 decimals


def shortfall_test(
    n: Floats, rest_n: Floats, shortfall: Floats, sd: Floats, skewness: Floats, inflation: Floats
) -> tuple[Floats, Floats]:
    """One-sided p of each slice's shortfall, and the shortfall's standard error.

    All arguments: (slice,). shortfall: mean of the rest minus mean of the slice. sd, skewness: of all scores, those of
    the slice and of the rest. inflation: variance of the mean of all scores over that of independent ones, at least 1:
    outputs of one case are alike. p is 1 where all scores are equal.
    """
    from scipy.special import gammainc, gammaincc, ndtr

    total = n + rest_n
    standard_error = sd * np.sqrt(inflation * total / (n * rest_n))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = shortfall / standard_error
        of_mean = skewness * (total - 2 * n) / (total - 2) * np.sqrt((total - 1) * inflation / (n * rest_n))
        skew = -of_mean  # the shortfall is large where the slice's mean is low
        shape = 4 / skew**2
        place = np.maximum(shape + 2 * z / skew, 0.0)
        tail = np.where(skew > 0, gammaincc(shape, place), gammainc(shape, place))
        p = np.where(np.abs(skew) < _NORMAL_SKEWNESS, ndtr(-z), tail)
    return np.where(standard_error > 0, p, 1.0), standard_error
