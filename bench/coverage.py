"""Coverage of nominal 95% intervals, by method, distribution and sample size.

    python bench/coverage.py [--rounds 4000]

Each cell is a coverage in percent; `*` marks a coverage outside 93 to 97. That of Wilson's interval is exact, summed
over the binomial distribution. The others are simulated, with a standard error of 0.4 at 4,000 rounds (0.7 for the
bootstrap, which has a quarter of the rounds, each of 1,000 resamples).
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from scipy.special import bdtr

from gradebook.rubrics.statistics.intervals import DIFFERENCES, SCORES, Interval, rate_interval, student_t, wilson
from gradebook.rubrics.statistics.resampling import bootstrap_means, percentile_interval

SEED = 20261121
SIZES = (5, 10, 20, 50, 100, 300, 1000)
LOW, HIGH = 93.0, 97.0
LEVELS = np.array([0.0, 0.5, 1.0])
SHARES = {
    "levels, even": (1 / 3, 1 / 3, 1 / 3),
    "levels, skewed": (0.05, 0.15, 0.80),
    "levels, rare failures": (0.01, 0.04, 0.95),
}
# Outputs per case: most cases have one, some have many.
UNEQUAL = {
    "50 cases of 1 output and 1 of 50": (1,) * 50 + (50,),
    "40 cases of 1 output and 4 of 20": (1,) * 40 + (20,) * 4,
}
NAIVE = "t that ignores the cases"
RATES = (0.02, 0.1, 0.3, 0.5, 0.9, 0.98)

Floats = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], Floats]
CLUSTER_METHODS: dict[str, Callable[[Floats, NDArray[np.int64]], Interval]] = {
    "cluster t": lambda found, cases: student_t(found, clusters=cases, bounds=SCORES),
    "Wilson, effective sample size": lambda found, cases: rate_interval(found, clusters=cases),
    NAIVE: lambda found, _: student_t(found, bounds=SCORES),
}


def main() -> None:
    """Print one table per method, and the count of cells within the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4_000)
    rounds = parser.parse_args().rounds
    tables = {
        "Student t on a mean": t_rows(rounds),
        "t on paired differences": paired_rows(rounds),
        "Wilson on a rate (exact)": wilson_rows(),
        "with clusters (columns: cases)": cluster_rows(rounds),
        "percentile bootstrap": bootstrap_rows(max(1, rounds // 4)),
    }
    for title, rows in tables.items():
        print(f"\n{title:54}" + "".join(f"{size:>9}" for size in SIZES))
        for name, cells in rows.items():
            print(f"{name:54}" + "".join(f"{_cell(cell):>9}" for cell in cells))
    print(f"\n{'with very unequal cases':72}{'covered':>9}")
    for name, cell in unequal_rows(rounds).items():
        print(f"{name:72}{_cell(cell):>9}")
    rows = [cells for table in tables.values() for name, cells in table.items() if not name.startswith(NAIVE)]
    print(f"\nwithin {LOW:.0f} to {HIGH:.0f}%, without {NAIVE}: {_within(rows, 50)}; {_within(rows, 300)}")


def t_rows(rounds: int) -> dict[str, list[float]]:
    """Means of scores with three levels."""
    rows = {}
    for name, shares in SHARES.items():
        truth = float(LEVELS @ np.array(shares))
        rows[name] = simulate(rounds, truth, drawing(shares), lambda found: student_t(found, bounds=SCORES))
    return rows


def paired_rows(rounds: int) -> dict[str, list[float]]:
    """Means of differences: most pairs tied, some higher, some lower."""
    rows = {}
    values = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    kinds = {
        "differences, 40% tied": (0.1, 0.2, 0.4, 0.2, 0.1),
        "differences, 80% tied": (0.02, 0.06, 0.8, 0.08, 0.04),
        "differences, 97% tied, a rare loss": (0.02, 0.0, 0.97, 0.01, 0.0),
    }
    for name, shares in kinds.items():
        truth = float(values @ np.array(shares))
        draw = drawing(shares, values)
        rows[name] = simulate(rounds, truth, draw, lambda found: student_t(found, bounds=DIFFERENCES))
    return rows


def wilson_rows() -> dict[str, list[float]]:
    """Rates from 2 to 98%."""
    return {f"rate {rate:g}": [wilson_coverage(size, rate) for size in SIZES] for rate in RATES}


def wilson_coverage(n: int, rate: float) -> float:
    """Exact coverage in percent, over all outcomes of n trials."""
    intervals = [wilson(successes, n) for successes in range(n + 1)]
    holds = np.array([found.low <= rate <= found.high for found in intervals])
    chances = np.diff(bdtr(np.arange(n + 1), n, rate), prepend=0.0)
    return float(100 * chances[holds].sum())


def cluster_rows(rounds: int) -> dict[str, list[float]]:
    """Several outputs per case: the case shifts the pass rate of all its outputs (intra-class correlation 0.5)."""
    rows: dict[str, list[float]] = {}
    for kind, sizes in {"5 outputs a case": (5, 5), "1 to 9 outputs a case": (1, 9)}.items():
        for name, interval in CLUSTER_METHODS.items():
            rows[f"{name}, {kind}"] = [_cluster_coverage(rounds, size, sizes, interval) for size in SIZES]
    return rows


def unequal_rows(rounds: int) -> dict[str, float]:
    """A few cases with most of the outputs: rates as in `cluster_rows`, and normal values independent of cases."""
    rows = {}
    for kind, counts in UNEQUAL.items():
        cases, rng = np.repeat(np.arange(len(counts)), counts), np.random.default_rng([SEED, len(counts)])
        drawn = [rng.random(cases.size) < rng.beta(0.8, 0.2, len(counts))[cases] for _ in range(rounds)]
        for name, interval in CLUSTER_METHODS.items():
            rows[f"{name}, {kind}"] = _covered([interval(each.astype(np.float64), cases) for each in drawn], 0.8)
        normal = [student_t(rng.normal(size=cases.size), clusters=cases) for _ in range(rounds)]
        rows[f"cluster t, normal, {kind}"] = _covered(normal, 0.0)
    return rows


def bootstrap_rows(rounds: int) -> dict[str, list[float]]:
    """Scores of points rubrics, some far below 0 through a penalty, and of levels; with t for comparison."""

    def interval(found: Floats) -> Interval:
        return percentile_interval(bootstrap_means(found, resample_count=1_000, seed=int(found.sum() * 1e6) % 2**31))

    points = np.array([-0.8, -0.3, 0.2, 0.6, 1.0])
    shares = (0.05, 0.05, 0.15, 0.35, 0.4)
    truth = float(points @ np.array(shares))
    rows = {"points with penalties": simulate(rounds, truth, drawing(shares, points), interval)}
    skewed = SHARES["levels, skewed"]
    rows["levels, skewed"] = simulate(rounds, float(LEVELS @ np.array(skewed)), drawing(skewed), interval)
    rows["points with penalties, Student t"] = simulate(rounds, truth, drawing(shares, points), student_t)
    return rows


def drawing(shares: tuple[float, ...], values: Floats = LEVELS) -> Draw:
    """Function that draws values with these probabilities."""
    return lambda size, rng: rng.choice(values, size, p=np.array(shares) / sum(shares))


def simulate(rounds: int, truth: float, draw: Draw, interval: Callable[[Floats], Interval]) -> list[float]:
    """Coverage in percent at each sample size; an unknown interval counts as a miss."""
    cells = []
    for size in SIZES:
        rng = np.random.default_rng([SEED, size])
        cells.append(_covered([interval(draw(size, rng)) for _ in range(rounds)], truth))
    return cells


def _cluster_coverage(
    rounds: int, case_count: int, sizes: tuple[int, int], interval: Callable[[Floats, NDArray[np.int64]], Interval]
) -> float:
    """Pass rates of cases are Beta(0.8, 0.2): mean 0.8, intra-class correlation 1 / (0.8 + 0.2 + 1) = 0.5."""
    rng = np.random.default_rng([SEED, case_count, *sizes])
    rounds = min(rounds, 400_000 // case_count)
    intervals = []
    for _ in range(rounds):
        counts = rng.integers(sizes[0], sizes[1] + 1, case_count)
        cases = np.repeat(np.arange(case_count), counts)
        found = (rng.random(cases.size) < rng.beta(0.8, 0.2, case_count)[cases]).astype(np.float64)
        intervals.append(interval(found, cases))
    return _covered(intervals, 0.8)


def _covered(found: list[Interval], truth: float) -> float:
    return 100 * sum(each.low - 1e-9 <= truth <= each.high + 1e-9 for each in found) / len(found)


def _within(rows: list[list[float]], least: int) -> str:
    cells = [cell for row in rows for size, cell in zip(SIZES, row, strict=True) if size >= least]
    return f"{sum(LOW <= cell <= HIGH for cell in cells)} of {len(cells)} cells from n = {least} on"


def _cell(percent: float) -> str:
    return f"{percent:.1f}" + (" " if LOW <= percent <= HIGH else "*")


if __name__ == "__main__":
    main()
