"""Bias and coverage of means over cases drawn by stratum, as `--sample N --stratify COLUMN` draws and weighs them.

    python bench/strata.py [--rounds 2000]

A dataset of 20,000 cases in 2 to 20 strata is drawn from again and again. Each row: a world and a sample size; the bias
of the weighted mean in standard errors of the simulation (up to 3 is chance), and that of the plain mean as a score;
the coverage of the 95% interval of the weighted mean, in percent, and its width over that of a sample without strata;
the coverage of the interval on a mean difference of two models. `*` marks a coverage outside 93 to 97%.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.rubrics.statistics.intervals import DIFFERENCES
from gradebook.rubrics.statistics.means import measure_difference, score_interval, score_interval_of
from gradebook.rubrics.statistics.strata import Strata, count_moved_by_stratum, measure_strata
from gradebook.tasks.datasets.sample import share_out

Floats = NDArray[np.float64]
BROKEN = "beta, half of the last stratum lost"
SEED = 20261126
CASE_COUNT = 20_000
SHARES = {
    "5 even": (0.2,) * 5,
    "5 uneven": (0.6, 0.25, 0.1, 0.04, 0.01),
    "20 even": (0.05,) * 20,
    "10 very uneven": (0.9,) + (0.1 / 9,) * 9,
    "2 very uneven": (0.98, 0.02),
}
SIZES = (50, 200, 1_000)
RATES = (0.95, 0.1)  # of the best outcome in the first and in the last stratum


def main() -> None:
    """Print one line per world and sample size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2_000)
    rounds = parser.parse_args().rounds
    print(f"{'world':52}{'cases':>6}{'bias':>7}{'plain':>8}{'covered':>9}{'width':>7}{'difference':>12}")
    for kind in ("0/1", "levels", "0/1, strata alike", "beta", BROKEN):
        for name, shares in SHARES.items():
            rng = np.random.default_rng([SEED, len(kind), len(name)])
            strata = np.repeat(np.arange(len(shares)), [round(share * CASE_COUNT) for share in shares])
            scores, others = (draw_scores(kind, strata, rng) for _ in range(2))
            others = np.where(rng.random(strata.size) < 0.7, scores, others)  # models that mostly agree
            if kind == BROKEN:
                others = np.minimum(scores + 0.05 * (rng.random(strata.size) < 0.5), 1.0)
                others[(strata == strata.max()) & (rng.random(strata.size) < 0.5)] = 0.0
            for size in SIZES:
                print(
                    f"{kind + ', ' + name:52}{size:>6}" + measure(scores, others, strata, size, rounds, rng), flush=True
                )


def draw_scores(kind: str, strata: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Scores of all cases of the dataset."""
    rates = np.linspace(*RATES, int(strata.max()) + 1)[strata]
    if kind.endswith("alike"):
        rates = np.full(strata.size, 0.8)
    if kind in ("beta", BROKEN):
        return rng.beta(8 * rates, 8 * (1 - rates))
    met = rng.random(strata.size) < rates
    return np.where(met, 1.0, rng.choice([0.0, 0.5], strata.size) if kind == "levels" else 0.0)


def measure(
    scores: Floats, others: Floats, strata: NDArray[np.int64], size: int, rounds: int, rng: np.random.Generator
) -> str:
    """Figures of one world and size, as words."""
    counts = np.bincount(strata)
    drawn = share_out(size, {str(code): int(count) for code, count in enumerate(counts)})
    sizes = np.array([drawn[str(code)] for code in range(counts.size)])
    starts = np.concatenate([[0], np.cumsum(counts)])
    codes = np.repeat(np.arange(counts.size), sizes)
    design = Strata(codes, (counts / sizes)[codes], float(scores.size))
    truth, gap = scores.mean(), (others - scores).mean()
    found = np.empty((rounds, 6))
    for place in range(rounds):
        cases = np.concatenate([starts[c] + rng.choice(counts[c], sizes[c], replace=False) for c in range(counts.size)])
        mean = measure_strata(scores[cases], design, of_scores=True)
        interval = score_interval_of(mean)
        differences = others[cases] - scores[cases]
        moved = count_moved_by_stratum(differences, design)
        tested = measure_difference(measure_strata(differences, design), moved, DIFFERENCES)
        plain = score_interval(scores[rng.choice(scores.size, size, replace=False)])
        found[place] = (
            mean.mean - truth,
            scores[cases].mean() - truth,
            interval.low <= truth <= interval.high,
            interval.high - interval.low,
            plain.high - plain.low,
            tested.low <= gap <= tested.high,
        )
    bias, plain_bias, covered, width, plain_width, compared = found.mean(axis=0)
    bias /= found[:, 0].std(ddof=1) / np.sqrt(rounds)
    return f"{bias:>7.1f}{plain_bias:>+8.3f}{_marked(covered):>9}{width / plain_width:>7.2f}{_marked(compared):>12}"


def _marked(share: float) -> str:
    return f"{100 * share:.1f}{' ' if 0.93 <= share <= 0.97 else '*'}"


if __name__ == "__main__":
    main()
