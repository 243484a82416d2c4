"""Coverage of the 95% intervals on means in the tables, before and after, near the ceiling and with uneven cases.

    python bench/inference_marts.py [--rounds 10000]

before: t with cluster-robust errors; Wilson's interval where all scores are 0 or 1; the rule of three where all are
equal; t for points. after: `rubrics/statistics/means.py`, which the tables call. Each cell is the coverage in
percent, then the shares of rounds with the truth above and below the interval; `*` marks a coverage under 93%.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from scipy.special import stdtrit

from gradebook.rubrics.statistics.intervals import Means
from gradebook.rubrics.statistics.means import score_ends, skewness_of

Floats = NDArray[np.float64]
Sizes = Callable[[int, np.random.Generator], NDArray[np.int64]]
SEED = 20261125
SIZES = (2, 3, 5, 7, 10, 20, 50, 100, 300)
MOST_CELLS = 3_000_000  # of 8 bytes
LEVELS = np.array([0.0, 0.5, 1.0])
CEILING = (0.05, 0.15, 0.8)
POINTS = np.array([-0.8, -0.3, 0.2, 0.6, 1.0])
POINT_SHARES = (0.05, 0.05, 0.15, 0.35, 0.4)
WEIGHTS = (0.3, 0.25, 0.2, 0.15, 0.1)
CRITERIA = (CEILING, (0.02, 0.08, 0.9), (0.03, 0.1, 0.87), (0.01, 0.09, 0.9), (0.02, 0.06, 0.92))
FEWEST = 93.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Measures of each round's sample, (round,), as in the model int_means_estimated. least: lowest score."""

    n: Floats
    unit_count: Floats
    mean: Floats
    sd: Floats
    robust_error: Floats
    error: Floats
    df: Floats
    skewness: Floats
    is_rate: NDArray[np.bool_]
    least: float = 0.0


def main() -> None:
    """Print one table of both methods per world, and the cells under the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10_000)
    rounds = parser.parse_args().rounds
    missed = {"before": 0, "after": 0}
    lowest = {"before": 100.0, "after": 100.0}
    print(f"{'':44}" + "".join(f"{size:>20}" for size in SIZES))
    for name, (truth, draw) in worlds().items():
        samples = [draw(min(rounds, MOST_CELLS // size), size, np.random.default_rng([SEED, size])) for size in SIZES]
        for method, ends in {"before": ends_before, "after": ends_after}.items():
            cells = [coverage(*ends(sample), truth) for sample in samples]
            missed[method] += sum(cell[0] < FEWEST for cell in cells)
            lowest[method] = min(lowest[method], *(cell[0] for cell in cells))
            print(f"{name:36}{method:8}" + "".join(f"{_words(cell):>20}" for cell in cells), flush=True)
    total = len(worlds()) * len(SIZES)
    for method, count in missed.items():
        print(f"{method}: {count} of {total} cells under {FEWEST:.0f}%, the lowest {lowest[method]:.1f}%")


def worlds() -> dict[str, tuple[float, Callable[[int, int, np.random.Generator], Sample]]]:
    """True mean, and a function that draws rounds of n values, or of n cases."""
    found = {f"0/1, rate {rate:g}": independent((0.0, 1.0), (1 - rate, rate)) for rate in (0.5, 0.7, 0.9, 0.97, 0.99)}
    found["levels, even"] = independent(LEVELS, (1, 1, 1))
    found["levels .05/.15/.80"] = independent(LEVELS, CEILING)
    found["levels 0/.05/.95"] = independent(LEVELS, (0, 0.05, 0.95))
    found["levels .01/.04/.95"] = independent(LEVELS, (0.01, 0.04, 0.95))
    found["five weighted criteria"] = five_criteria()
    found["points with penalties"] = independent(POINTS, POINT_SHARES, least=-1.0)
    five: Sizes = lambda count, rng: np.full(count, 5)  # noqa: E731
    uneven: Sizes = lambda count, rng: rng.integers(1, 10, count)  # noqa: E731
    found["levels .80, 5 a case, ICC .7"] = of_cases(0.0, 0.7, five, CEILING)
    found["levels .80, 1 to 9, ICC .7"] = of_cases(0.0, 0.7, uneven, CEILING)
    found["0/1 at .97, 1 to 9, ICC .7"] = of_cases(0.97, 0.7, uneven)
    found["0/1 at .9, a tenth with 20, ICC .7"] = of_cases(0.9, 0.7, a_tenth)
    found["0/1 at .9, a tenth with 20, ICC .1"] = of_cases(0.9, 0.1, a_tenth)
    found["0/1 at .5, 5 a case, ICC .3"] = of_cases(0.5, 0.3, five)
    found["0/1 at .5, 1 to 9, ICC .7"] = of_cases(0.5, 0.7, uneven)
    return found


def a_tenth(count: int, _: np.random.Generator) -> NDArray[np.int64]:
    """Outputs of each case: 20 in a tenth of the cases, 1 in the others."""
    return np.where(np.arange(count) < max(1, count // 10), 20, 1)


def independent(values: Floats | tuple[float, ...], shares: tuple[float, ...], least: float = 0.0):
    """World of independent values."""
    chances = np.array(shares) / sum(shares)
    return float(np.array(values) @ chances), lambda rounds, n, rng: measure(
        rng.choice(values, (rounds, n), p=chances), None, least
    )


def five_criteria():
    """World of weighted means of five criteria near the ceiling."""
    truth = sum(weight * float(LEVELS @ np.array(shares)) for weight, shares in zip(WEIGHTS, CRITERIA, strict=True))

    def draw(rounds: int, n: int, rng: np.random.Generator) -> Sample:
        drawn = (rng.choice(LEVELS, (rounds, n), p=shares) for shares in CRITERIA)
        return measure(sum(weight * each for weight, each in zip(WEIGHTS, drawn, strict=True)), None)

    return truth, draw


def of_cases(rate: float, correlation: float, sizes: Sizes, shares: tuple[float, ...] | None = None):
    """World of several outputs a case; 0/1 by a beta rate of the case, levels shared with the case by chance."""
    truth = rate if shares is None else float(LEVELS @ np.array(shares))

    def draw(rounds: int, count: int, rng: np.random.Generator) -> Sample:
        counts = np.array([sizes(count, rng) for _ in range(rounds)])
        most = int(counts.sum(axis=1).max())
        clusters = np.full((rounds, most), -1)
        for row, each in zip(clusters, counts, strict=True):
            row[: each.sum()] = np.repeat(np.arange(count), each)
        places = np.maximum(clusters, 0)
        if shares is None:
            scale = 1 / correlation - 1
            rates = rng.beta(rate * scale, (1 - rate) * scale, (rounds, count))
            values = (rng.random((rounds, most)) < np.take_along_axis(rates, places, 1)).astype(np.float64)
        else:
            own, of_case = (rng.choice(LEVELS, (rounds, width), p=shares) for width in (most, count))
            is_shared = rng.random((rounds, most)) < np.sqrt(correlation)
            values = np.where(is_shared, np.take_along_axis(of_case, places, 1), own)
        return measure(np.where(clusters < 0, np.nan, values), clusters)

    return truth, draw


def measure(values: Floats, clusters: NDArray[np.int64] | None, least: float = 0.0) -> Sample:
    """`measure_scores` of many samples. values: (round, value), NaN for none; clusters: the same shape, -1 for none."""
    is_known = ~np.isnan(values)
    n = is_known.sum(axis=1).astype(np.float64)
    mean = np.where(is_known, values, 0.0).sum(axis=1) / n
    residuals = np.where(is_known, values - mean[:, None], 0.0)
    squares = np.square(residuals).sum(axis=1)
    sd = np.sqrt(squares / (n - 1))
    is_rate = np.all(~is_known | (values == 0) | (values == 1), axis=1)
    if clusters is None:
        return Sample(n, n, mean, sd, sd / np.sqrt(n), sd / np.sqrt(n), n - 1, skewness_of(values), is_rate, least)
    count = int(clusters.max()) + 1
    rows = np.arange(len(values))[:, None] * (count + 1) + np.where(clusters < 0, count, clusters)

    def of_clusters(each: Floats) -> Floats:
        sums = np.bincount(rows.ravel(), weights=each.ravel(), minlength=len(values) * (count + 1))
        return sums.reshape(len(values), count + 1)[:, :count]

    sums, sizes = of_clusters(residuals), of_clusters(is_known.astype(np.float64))
    shares = sizes / n[:, None]
    robust = np.sqrt((np.square(sums / n[:, None]) / (1 - shares)).sum(axis=1))
    lost = shares**2 / (1 - shares)
    df = np.clip(1 / ((shares**2).sum(axis=1) + lost.sum(axis=1) ** 2 - (lost**2).sum(axis=1)), 1.0, count - 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        between_squares = (sums**2 / sizes).sum(axis=1)
        between = between_squares / (count - 1)
        within = np.maximum(squares - between_squares, 0.0) / (n - count)
        usual = (sizes**2).sum(axis=1) / n
        spread = (n - usual) / (count - 1)
        correlation = np.nan_to_num(np.clip((between - within) / (between + (spread - 1) * within), 0.0, 1.0))
    skewness = skewness_of(np.where(sizes > 0, sums, np.nan))
    shared = sd * np.sqrt((1 + (usual - 1) * correlation) / n)
    return Sample(n, np.full_like(n, count), mean, sd, robust, np.maximum(robust, shared), df, skewness, is_rate, least)


def ends_after(found: Sample) -> tuple[Floats, Floats]:
    """Interval of the tables."""
    width = 1.0 - found.least
    scaled = np.clip((found.mean - found.least) / width, 0.0, 1.0), found.sd / width, found.error / width
    means = Means(found.n, found.unit_count, *scaled, found.df)
    low, high = score_ends(means, found.skewness)
    return found.least + width * low, found.least + width * high


def ends_before(found: Sample) -> tuple[Floats, Floats]:
    """Interval of the tables of gradebook 0.1; t in place of its bootstrap of points."""
    n, units, mean, error = found.n, found.unit_count, found.mean, found.robust_error
    student, z = stdtrit(found.df, 0.975), 1.959963984540054
    is_constant = error <= 1e-12
    drawn = 0.05 ** (1 / units)
    low = np.where(is_constant, mean * drawn, mean - student * error)
    high = np.where(is_constant, 1 - (1 - mean) * drawn, mean + student * error)
    if found.least < 0:
        return low, high
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.minimum(n, mean * (1 - mean) * (stdtrit(n - 1, 0.975) / student / error) ** 2)
    worth = np.where(units == n, n, np.where(is_constant, units, worth))
    centre = (mean + z * z / 2 / worth) / (1 + z * z / worth)
    margin = z / (1 + z * z / worth) * np.sqrt(mean * (1 - mean) / worth + z * z / 4 / worth**2)
    low, high = np.where(found.is_rate, centre - margin, low), np.where(found.is_rate, centre + margin, high)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def coverage(low: Floats, high: Floats, truth: float) -> tuple[float, float, float]:
    """Percent covered, percent with the truth above and below the interval."""
    above, below = 100 * float((high < truth - 1e-9).mean()), 100 * float((low > truth + 1e-9).mean())
    return 100 - above - below, above, below


def _words(cell: tuple[float, float, float]) -> str:
    return f"{cell[0]:.1f}{'*' if cell[0] < FEWEST else ' '}({cell[1]:.1f}/{cell[2]:.1f})"


if __name__ == "__main__":
    main()
