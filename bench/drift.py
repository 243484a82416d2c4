"""Error rates and delays of the sentinel of a judge: 150 anchors, 40 a night, after a reference night that asks all.

python bench/drift.py [STREAMS]

An anchor passes or fails, and each reply is turned over at the rate of the noise. A shift turns passing replies into
failing ones, so that the mean falls by that much. "z-test": a nightly test of the differences from the first reply at
5%, as many teams have it. "Given": the same e-process where the first reply counts as the truth.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.judge_quality import DriftEvidence, contrasts

ANCHORS, PER_NIGHT, NIGHTS, ALPHA = 150, 40, 60, 0.05
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class World:
    """noise: share of replies turned over. shift: fall of the mean from the night `begins` on, None: never.

    draws: replies of the reference. is_given: whether the reference is one reply that counts as the truth.
    """

    noise: float
    shift: float = 0.0
    begins: int = 0
    draws: int = 3
    is_given: bool = False


def follow(rng: np.random.Generator, stream_count: int, world: World) -> tuple[NDArray[np.int64], Bools]:
    """First night with an alarm of each stream, NIGHTS + 1 without one, and whether a nightly z-test ever fired."""
    truth = rng.random((stream_count, ANCHORS)) < 0.5

    def reply(passing: Bools, shift: float) -> Floats:
        found = passing ^ (rng.random(passing.shape) < world.noise)
        return (found & (rng.random(passing.shape) >= 2 * shift)).astype(float)  # half of the replies pass

    first = reply(truth, 0)
    sums = first + sum((reply(truth, 0) for _ in range(world.draws - 1)), np.zeros(truth.shape))
    counts = np.full(truth.shape, world.draws)
    evidence, alarm, fired = DriftEvidence(), np.full(stream_count, NIGHTS + 1), np.zeros(stream_count, bool)
    order = np.arange(ANCHORS)
    for night in range(1, NIGHTS + 1):
        chosen, order = order[:PER_NIGHT], np.roll(order, -PER_NIGHT)
        scores = reply(truth[:, chosen], world.shift if night > world.begins else 0)
        gaps = scores - first[:, chosen]
        found = gaps if world.is_given else contrasts(scores, sums[:, chosen], counts[:, chosen])
        evidence = evidence.after(found)
        sums[:, chosen] += scores
        counts[:, chosen] += 1
        alarm = np.where((evidence.e_value >= 1 / ALPHA) & (alarm > NIGHTS), night, alarm)
        error = np.maximum(gaps.std(axis=1, ddof=1) / np.sqrt(PER_NIGHT), 1e-9)
        fired |= 2 * ndtr(-np.abs(gaps.mean(axis=1) / error)) < ALPHA
    return alarm, fired


def main(stream_count: int) -> None:
    """Print the share of streams with a false alarm, then the nights until a shift is seen."""
    rng, began = np.random.default_rng(5), time.process_time()
    print(f"{'nothing changes':34}{'noise':>6}{'alarm in 60 nights':>20}{'z-test':>8}")
    for noise in (0.01, 0.05, 0.15):
        for draws in (1, 3):
            alarm, fired = follow(rng, stream_count, World(noise, draws=draws))
            print(f"{f'reference of {draws}':34}{noise:>6}{(alarm <= NIGHTS).mean():>20.3f}{fired.mean():>8.2f}")
        alarm, _ = follow(rng, stream_count, World(noise, draws=1, is_given=True))
        print(f"{'first reply given as the truth':34}{noise:>6}{(alarm <= NIGHTS).mean():>20.3f}")
    print(
        f"\n{'mean falls by':14}{'noise':>6}{'draws':>6}{'from night':>11}{'seen':>7}{'nights, median':>15}{'90%':>5}"
    )
    for shift in (0.02, 0.05, 0.10):
        for noise in (0.01, 0.05):
            for draws, begins in ((1, 0), (3, 0), (3, 20)):
                world = World(noise, shift, begins, draws)
                alarm, _ = follow(rng, max(stream_count // 5, 1), world)
                late = np.where(alarm > begins, alarm - begins, 0)
                seen = (alarm > begins) & (alarm <= NIGHTS)
                delays = [np.quantile(late, share, method="inverted_cdf") for share in (0.5, 0.9)]
                shown = [f"{each:.0f}" if each <= NIGHTS - begins else "-" for each in delays]
                where = f"{shift:<14}{noise:>6}{draws:>6}{begins + 1:>11}"
                print(f"{where}{seen.mean():>7.2f}{shown[0]:>15}{shown[1]:>5}")
    print(f"{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
