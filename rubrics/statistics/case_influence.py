"""Contribution of each case to the means of two sets of outputs, such as the rated and the unrated ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.model.arrays import Floats


@dataclass(frozen=True, slots=True)
class Influences:
    """Contribution of each case in either set to each set's mean. All arrays: (case,).

    own, others: 0 if the set has no output of the case. has_own, has_others: whether the set has one.
    """

    own: Floats
    others: Floats
    has_own: NDArray[np.bool_]
    has_others: NDArray[np.bool_]

    @property
    def covariance(self) -> float:
        """Covariance of the two means; 0 if no case is in both sets."""
        return float(self.own @ self.others)


def measure_influences(
    own: Floats, others: Floats, own_cases: ArrayLike | None = None, other_cases: ArrayLike | None = None
) -> Influences:
    """Decompose two means by case.

    own, others: (n,) and (m,), the values. own_cases, other_cases: case of each; None: each value is a case of its own.
    Each set needs two or more cases. A case contributes the sum of its residuals over n, enlarged as in CR2 (Bell and
    McCaffrey 2002) for a model with one mean per set: divided by the root of 1 - its share of the set. So the sum of
    the squares of a x own + b x others is the variance of a times one mean plus b times the other.
    """
    codes = np.arange(own.size + others.size)
    if own_cases is not None and other_cases is not None:
        _, codes = np.unique(np.concatenate([np.asarray(own_cases), np.asarray(other_cases)]), return_inverse=True)
    of_own, of_others = codes[: own.size], codes[own.size :]
    case_count = int(codes.max()) + 1
    return Influences(
        case_contributions(own, of_own, case_count),
        case_contributions(others, of_others, case_count),
        np.bincount(of_own, minlength=case_count) > 0,
        np.bincount(of_others, minlength=case_count) > 0,
    )


def case_contributions(values: Floats, codes: NDArray[np.intp], case_count: int) -> Floats:
    """Contribution of each case to a mean, (case,), as in `measure_influences`. codes: case of each value, from 0."""
    sums = np.bincount(codes, weights=values - values.mean(), minlength=case_count)
    shares = np.bincount(codes, minlength=case_count) / values.size
    found: Floats = sums / values.size / np.sqrt(1.0 - shares)
    return found
