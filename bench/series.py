"""Error rate and power of a nightly gate over a month, with and without the levels of a series.

python bench/series.py [SERIES]

A night compares 100 cases, differences with a standard deviation of 0.3, by the rule `mean_diff < 0 and p < 0.05`.
"Changed": the probability that a fall is found on the night it comes, the tenth, or within a week of it, if the
baseline stays the one of the first night.
"""

import sys
import time

import numpy as np

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import measure_means
from gradebook.rubrics.statistics.means import count_moved, measure_difference
from gradebook.rubrics.statistics.series import METHODS, Series

NIGHTS, CASES, SD, BEGINS, WEEK = 31, 100, 0.3, 10, 7


def fires(rng: np.random.Generator, shape: tuple[int, int], fall: float) -> tuple[Floats, Floats]:
    """Two-sided p and mean difference of each night, (series, night)."""
    p, diff = np.empty(shape), np.empty(shape)
    for night in range(shape[1]):
        shift = fall if night + 1 >= BEGINS else 0.0
        found = np.clip(rng.normal(-shift, SD, (shape[0], CASES)), -1, 1)
        means = measure_means(found)
        p[:, night], diff[:, night] = measure_difference(means, count_moved(found)).p, means.mean
    return p, diff


def main(series_count: int) -> None:
    """Print the share of series with a false alarm, and of falls that are found."""
    rng, began = np.random.default_rng(6), time.process_time()
    worlds = {fall: fires(rng, (series_count, NIGHTS), fall) for fall in (0.0, 0.05, 0.1, 0.15)}
    print(f"{'method':14}{'false alarm':>12}", *(f"{f'fall {fall}':>20}" for fall in list(worlds)[1:]))
    for method in ("none", *METHODS):
        levels = [0.05] * NIGHTS if method == "none" else [Series(0.05, method).level(1 + n) for n in range(NIGHTS)]  # type: ignore[arg-type]
        fired = {fall: (p < levels) & (diff < 0) for fall, (p, diff) in worlds.items()}
        print(f"{method:14}{fired[0.0].any(axis=1).mean():>12.3f}", end=" ")
        for found in list(fired.values())[1:]:
            tonight, within = found[:, BEGINS - 1], found[:, BEGINS - 1 : BEGINS - 1 + WEEK].any(axis=1)
            print(f"{f'{tonight.mean():.2f}, week {within.mean():.2f}':>20}", end=" ")
        print()
    print(f"{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
