"""What chance adds to the highest of several means."""

import numpy as np
from numpy.typing import ArrayLike


def luck_of_best(means: ArrayLike, standard_error: float) -> float:
    """Part of the highest mean that chance explains, at least 0: its fall if the means are shrunk to their own mean.

    means: (candidate,), no NaN. standard_error: of the difference of two of them. The shrinkage is that of empirical
    Bayes: true means have the variance of these, less that of their noise. A single candidate was not chosen: 0.
    """
    found = np.asarray(means, dtype=np.float64)
    if found.size < 2:
        return 0.0
    observed, noise = float(found.var(ddof=1)), standard_error**2 / 2.0
    share = min(1.0, noise / observed) if observed > 0 else 0.0
    return float(found.max() - found.mean()) * share
