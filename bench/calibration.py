"""Coverage and width of the 95% intervals of calibrated means.

    python bench/calibration.py [--simulations 4000] [--unrated 2000]

Simulates people's ratings and a judge's scores from worlds with a known true mean. Prints a line per world, number of
ratings and estimate; the last line is the coverage of the corrected mean with 100 or more ratings.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gradebook.rubrics.statistics.calibration import (
    Estimate,
    Rated,
    corrected_mean,
    naive_mean,
    rated_mean,
)
from gradebook.rubrics.statistics.rating_estimates import rogan_gladen_mean

SIZES = (30, 100, 200, 400)
Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True)
class World:
    """Distribution of ratings and scores. true_mean: of the ratings. has_two_levels: only 0 and 1.

    sample_count: outputs per case. rated_count: rated outputs per rated case; if it is less than sample_count, the only
    unrated outputs are the others of those cases.
    """

    name: str
    true_mean: float
    draw: Draw
    has_two_levels: bool = False
    sample_count: int = 1
    rated_count: int = 1


def binary(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """True rate 0.7; the judge's sensitivity 0.95, its specificity 0.75."""
    is_good = rng.random(count) < 0.7
    says_good = rng.random(count) < np.where(is_good, 0.95, 0.25)
    return is_good.astype(np.float64), says_good.astype(np.float64)


def rare(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """True rate 0.95; sensitivity 0.98, specificity 0.6."""
    is_good = rng.random(count) < 0.95
    says_good = rng.random(count) < np.where(is_good, 0.98, 0.4)
    return is_good.astype(np.float64), says_good.astype(np.float64)


def five_levels(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Levels 0, 0.25 .. 1, mean 0.6; the judge is noisy, and one level too lenient half of the time."""
    ratings = rng.choice(5, count, p=(0.05, 0.15, 0.30, 0.35, 0.15))
    scores = np.clip(ratings + rng.integers(0, 2, count) + rng.integers(-1, 2, count), 0, 4)
    return ratings / 4.0, scores / 4.0


def useless(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Ratings as in five_levels; the judge's scores are independent of them."""
    ratings, _ = five_levels(rng, count)
    return ratings, rng.integers(0, 5, count) / 4.0


def alike(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Five outputs per case, mean 0.5: cases differ more than outputs within a case, and the judge is noisy."""
    cases = rng.normal(0.0, 0.12, (count // 5, 1))
    ratings = cases + rng.normal(0.0, 0.05, (count // 5, 5))
    scores = 0.6 * cases + rng.normal(0.0, 0.12, (count // 5, 5))
    return np.clip(0.5 + ratings, 0, 1).ravel(), np.clip(0.5 + scores, 0, 1).ravel()


def alike_levels(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Five outputs per case, levels 0, 0.25 .. 1, mean 0.5: quality and the judge's error depend on the case."""
    cases, errors = rng.normal(0.0, 0.9, (count // 5, 1)), rng.normal(0.4, 0.6, (count // 5, 1))
    ratings = np.clip(np.round(2.0 + cases + rng.normal(0.0, 0.4, (count // 5, 5))), 0, 4)
    scores = np.clip(np.round(ratings + errors + rng.normal(0.0, 0.4, (count // 5, 5))), 0, 4)
    return ratings.ravel() / 4.0, scores.ravel() / 4.0


def alike_binary(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Five outputs per case, true rate 0.7: 0.9 in half of the cases, 0.5 in the others.

    Sensitivity 0.95 and specificity 0.75 on average, but in every fifth case the judge passes all bad outputs.
    """
    rates = np.where(rng.random((count // 5, 1)) < 0.5, 0.9, 0.5)
    is_good = rng.random((count // 5, 5)) < rates
    is_fooled = rng.random((count // 5, 1)) < 0.2
    says_good = rng.random((count // 5, 5)) < np.where(is_good, 0.95, np.where(is_fooled, 1.0, 0.0625))
    return is_good.ravel().astype(np.float64), says_good.ravel().astype(np.float64)


WORLDS = (
    World("two levels, true rate 0.70", 0.7, binary, has_two_levels=True),
    World("two levels, true rate 0.95", 0.95, rare, has_two_levels=True),
    World("five levels, judge too lenient", 0.6, five_levels),
    World("five levels, useless judge", 0.6, useless),
    World("one rated of 5 of a case", 0.5, alike, sample_count=5),
    World("three rated of 5 of a case", 0.5, alike, sample_count=5, rated_count=3),
    World("whole cases of 5, five levels", 0.5, alike_levels, sample_count=5, rated_count=5),
    World("whole cases of 5, two levels", 0.7, alike_binary, has_two_levels=True, sample_count=5, rated_count=5),
)


def estimates_of(world: World, rated: Rated) -> dict[str, Estimate]:
    """All estimates of one draw."""
    levels = (0.0, 1.0) if world.has_two_levels else None
    found = {"judge alone": naive_mean(rated), "ratings alone": rated_mean(rated, levels)}
    if levels is not None:
        found["Rogan-Gladen"] = rogan_gladen_mean(rated, levels)
    return found | {"corrected (PPI++)": corrected_mean(rated, levels)}


def draw_rated(world: World, rng: np.random.Generator, n: int, unrated: int) -> Rated:
    """Draw with n rated outputs, or a few more to complete the last case."""
    if world.sample_count == 1:
        ratings, scores = world.draw(rng, n + unrated)
        return Rated(ratings[:n], scores[:n], scores[n:])
    rated_cases = -(-n // world.rated_count)
    is_whole = world.rated_count == world.sample_count
    places = np.arange(rated_cases * world.sample_count + (unrated if is_whole else 0))
    cases = places // world.sample_count
    is_rated = (places % world.sample_count < world.rated_count) & (cases < rated_cases)
    ratings, scores = world.draw(rng, places.size)
    return Rated(ratings[is_rated], scores[is_rated], scores[~is_rated], cases[is_rated], cases[~is_rated])


def simulate(world: World, n: int, unrated: int, simulations: int) -> dict[str, tuple[float, float, float]]:
    """Coverage (0..1), mean width and share (0..1) of draws with an interval, by estimate."""
    rng = np.random.default_rng(n)
    rows: dict[str, list[tuple[bool, float]]] = {}
    for _ in range(simulations):
        for name, found in estimates_of(world, draw_rated(world, rng, n, unrated)).items():
            found_rows = rows.setdefault(name, [])
            if found.ci_low is not None and found.ci_high is not None:
                found_rows.append((found.ci_low <= world.true_mean <= found.ci_high, found.ci_high - found.ci_low))
    return {
        name: (
            float(np.mean([row[0] for row in found_rows])),
            float(np.mean([row[1] for row in found_rows])),
            len(found_rows) / simulations,
        )
        for name, found_rows in rows.items()
    }


def main() -> int:
    """Run all worlds; returns 1 if the corrected mean's coverage with 100 or more ratings is outside 93 to 97%."""
    parser = argparse.ArgumentParser(description="Coverage of calibrated means.")
    parser.add_argument("--simulations", type=int, default=4_000)
    parser.add_argument("--unrated", type=int, default=2_000)
    arguments = parser.parse_args()
    print(f"{arguments.simulations} simulations, {arguments.unrated} unrated outputs, intervals of 95%")
    print(f"{'world':<30}{'ratings':>8}  {'estimate':<20}{'coverage':>9}{'width':>8}{'defined':>9}")
    corrected = []
    for world in WORLDS:
        for n in SIZES:
            for name, (coverage, width, share) in simulate(world, n, arguments.unrated, arguments.simulations).items():
                print(f"{world.name:<30}{n:>8}  {name:<20}{coverage:>9.1%}{width:>8.3f}{share:>9.1%}")
                if name.startswith("corrected") and n >= 100:
                    corrected.append(coverage)
    print(f"corrected, 100 or more ratings: {min(corrected):.1%} to {max(corrected):.1%}")
    return 0 if all(0.93 <= coverage <= 0.97 for coverage in corrected) else 1


if __name__ == "__main__":
    sys.exit(main())
