"""Arrays of numbers: their type, and sums of values by cluster, such as several outputs of one case."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def cluster_sums(
    values: ArrayLike, clusters: ArrayLike | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and number of the values of each cluster, both (cluster,), in the order of the clusters' names.

    values: (n,). clusters: (n,), of any sortable type; None: each value is a cluster of its own.
    """
    array = np.asarray(values, dtype=np.float64)
    if clusters is None:
        return array, np.ones(array.size)
    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    return np.bincount(codes, weights=array).astype(np.float64), np.bincount(codes).astype(np.float64)
