"""Error rates of a comparison in worlds without a true difference: t alone, and the method of `gradebook compare`.

python bench/inference.py [ROUNDS]
"""

import sys
from collections.abc import Iterator

import numpy as np
from scipy.special import stdtr

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.mean_difference import count_moved, measure_difference
from gradebook.rubrics.statistics.vectorised_means import measure_means

SIZES = (10, 20, 50, 100, 300)
ALPHA = 0.05
LEVELS, SHARES = [0.0, 0.5, 1.0], [0.05, 0.15, 0.8]


def worlds(rng: np.random.Generator, round_count: int, n: int) -> Iterator[tuple[str, Floats]]:
    """Differences of each world, (round, case), of mean 0."""
    shape = (round_count, n)
    yield "normal, sd 0.1", np.clip(rng.normal(0, 0.1, shape), -1, 1)
    yield "normal, sd 0.3", np.clip(rng.normal(0, 0.3, shape), -1, 1)
    yield "levels .05/.15/.80", rng.choice(LEVELS, shape, p=SHARES) - rng.choice(LEVELS, shape, p=SHARES)
    yield "10% moved by 0.5", rng.choice([-0.5, 0, 0.5], shape, p=[0.05, 0.9, 0.05])
    yield "3% moved by 1", rng.choice([-1.0, 0, 1], shape, p=[0.015, 0.97, 0.015])
    yield "+0.1 in 90%, -0.9 in 10%", rng.choice([0.1, -0.9], shape, p=[0.9, 0.1])
    yield "+0.05 in 40%, -1 in 2%", rng.choice([0.05, 0, -1], shape, p=[0.4, 0.58, 0.02])
    yield "+0.1 in 45%, -0.3 in 15%", rng.choice([0.1, 0, -0.3], shape, p=[0.45, 0.4, 0.15])


def main(round_count: int) -> None:
    """Print how often each method says better or worse, and how often its interval holds 0."""
    rng = np.random.default_rng(1)
    print(f"{'world':26}{'n':>5}{'t better':>10}{'t worse':>9}{'better':>8}{'worse':>7}{'covered':>9}")
    for n in SIZES:
        for name, found in worlds(rng, round_count, n):
            means = measure_means(found)
            with np.errstate(divide="ignore", invalid="ignore"):
                of_t = 2.0 * stdtr(means.df, -np.abs(means.mean) / means.standard_error)
            own = measure_difference(means, count_moved(found))
            rates = [(p <= ALPHA) & (sign * means.mean > 1e-12) for p in (of_t, own.p) for sign in (1, -1)] + [
                (own.low <= 1e-12) & (own.high >= -1e-12)
            ]
            shown = [f"{100 * rate.mean():.1f}" for rate in rates]
            print(f"{name:26}{n:>5}{shown[0]:>10}{shown[1]:>9}{shown[2]:>8}{shown[3]:>7}{shown[4]:>9}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
