"""Coverage of the intervals of models' strengths from pairwise choices with ties.

python bench/inference_pairs.py [ROUNDS]

Cases with one or three choices between random models; of three, all lean to one side by the case.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gradebook.rubrics.statistics.davidson import LEAST_CASES, Choices, rank_models

STRENGTHS = {
    "two models, equal": [0.0, 0.0],
    "two, apart by 1": [-0.5, 0.5],
    "five, -1 to 1": [-1.0, -0.5, 0.0, 0.5, 1.0],
}
SIZES = (LEAST_CASES, 50, 100, 300)
TIE = 0.7  # constant of a tie: a quarter of the choices of equal models


def draw(rng: np.random.Generator, strengths: np.ndarray, case_count: int, choice_count: int) -> Choices:
    """Choices of some cases; the leaning of a case has a standard deviation of 0.5 where it has several choices."""
    cases = np.repeat(np.arange(case_count), choice_count)
    order = rng.random((cases.size, strengths.size)).argsort(axis=1)
    firsts, seconds = np.sort(order[:, :2], axis=1).T
    leaning = 0.5 * (choice_count > 1) * rng.normal(size=case_count)[cases]
    half = (strengths[seconds] - strengths[firsts] + leaning) / 2
    weights = np.stack([np.exp(-half), np.full(half.size, TIE), np.exp(half)])
    edges = np.cumsum(weights / weights.sum(axis=0), axis=0)[:2]
    wins = (rng.random(half.size) > edges).sum(axis=0) / 2
    return Choices(firsts, seconds, wins, cases)


def main(round_count: int) -> None:
    """Print, for each world and size, how often the intervals hold the strengths, and how often there are strengths."""
    for name, given in STRENGTHS.items():
        strengths = np.array(given)
        for choice_count in (1, 3):
            for case_count in SIZES:
                rng, held = np.random.default_rng(case_count), []
                for _ in range(round_count):
                    found = rank_models(draw(rng, strengths, case_count, choice_count), strengths.size).strengths
                    if found[0].value is not None:
                        held.append(
                            [each.ci_low <= s <= each.ci_high for each, s in zip(found, strengths, strict=True)]
                        )
                covered = f"covered {100 * np.mean(held):5.1f} shown {100 * len(held) / round_count:5.1f}"
                print(f"{name:20}{choice_count:>2} choices a case, {case_count:>4} cases: {covered}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
