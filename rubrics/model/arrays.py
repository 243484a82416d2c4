"""Types of numpy arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
