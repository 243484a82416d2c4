"""Coverage of the interval of a link: two rubric versions on the same outputs.

python bench/linking.py [ROUNDS]

Outputs score on levels 0, .5 and 1; the new version turns a share of them one level down, and adds noise of its own.
"Slope": how often the spreads differ beyond chance, and the link has a slope.
"""

import sys
import time
from functools import cache

import numpy as np

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.distributions import measure_spread
from gradebook.rubrics.statistics.intervals import DIFFERENCES, mean_interval, measure_mean
from gradebook.rubrics.statistics.significance import Chance

LEVELS = np.array([0.0, 0.5, 1.0])
SHARES = {"even": (1 / 3, 1 / 3, 1 / 3), "near the top": (0.05, 0.15, 0.8)}


def sides(rng: np.random.Generator, cases: int, each: int, shares: tuple[float, ...], down: float) -> list[Floats]:
    """Scores by both versions, (output,): `each` outputs of a case share three quarters of their levels."""
    of_case = rng.choice(3, (cases, 1), p=shares)
    level = np.where(rng.random((cases, each)) < 0.75, of_case, rng.choice(3, (cases, each), p=shares)).ravel()
    fallen = np.maximum(level - (rng.random(level.size) < down), 0)
    noisy = np.where(rng.random(level.size) < 0.1, rng.choice(3, level.size, p=shares), fallen)
    return [LEVELS[level], LEVELS[noisy]]


@cache
def truth(shares: tuple[float, ...], down: float) -> float:
    """True offset: 90% fall by chance from levels above the lowest, the others are drawn anew."""
    return -0.9 * down * 0.5 * (1 - shares[0])


def main(round_count: int) -> None:
    """Print how often the interval of the offset holds the true one."""
    rng, began = np.random.default_rng(8), time.process_time()
    print(f"{'levels':14}{'cases':>6}{'each':>6}{'down':>6}{'covered':>9}{'slope':>7}")
    for name, shares in SHARES.items():
        for cases, each in ((50, 1), (150, 1), (150, 3)):
            for down in (0.0, 0.3):
                held, slopes = [], []
                for _ in range(round_count):
                    old, new = sides(rng, cases, each, shares, down)
                    clusters = np.repeat(np.arange(cases), each)
                    ends = mean_interval(measure_mean(new - old, clusters), bounds=DIFFERENCES)
                    held.append(ends.low <= truth(shares, down) <= ends.high)
                    if len(slopes) < round_count // 5:
                        outcome = measure_spread(old, new, clusters).outcome
                        slopes.append(outcome in (Chance.ABOVE, Chance.BELOW))
                print(f"{name:14}{cases:>6}{each:>6}{down:>6}{np.mean(held):>9.3f}{np.mean(slopes):>7.2f}")
    print(f"{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
