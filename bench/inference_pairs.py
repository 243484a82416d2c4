"""Coverage of the intervals of models' strengths from pairwise choices with ties.

python bench/inference_pairs.py [ROUNDS]

The second table has four models in two halves, which few choices join, with the limit on them and without.
Cases with one or three choices between random models; of three, all lean to one side by the case.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gradebook.rubrics.statistics import davidson
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
                    if found[0].ci_low is not None:
                        held.append(
                            [each.ci_low <= s <= each.ci_high for each, s in zip(found, strengths, strict=True)]
                        )
                covered = f"covered {100 * np.mean(held):5.1f} shown {100 * len(held) / round_count:5.1f}"
                print(f"{name:20}{choice_count:>2} choices a case, {case_count:>4} cases: {covered}", flush=True)


def join_halves(round_count: int) -> None:
    """Print how often strengths of models of two halves have intervals, and how many of these hold."""
    strengths = np.array([-0.5, 0.5, -0.5, 0.5])
    for links in (1, 2, 3, 5, 10):
        rng, shown, held = np.random.default_rng(links), np.zeros(2), np.zeros(2)
        for _ in range(round_count):
            halves = [draw(rng, strengths[:2], 50, 1) for _ in "ab"]
            # The last choices are between the halves.
            half = (strengths[3] - strengths[0]) / 2 * np.ones(links)
            weights = np.stack([np.exp(-half), np.full(links, TIE), np.exp(half)])
            wins = (rng.random(links) > np.cumsum(weights / weights.sum(axis=0), axis=0)[:2]).sum(axis=0) / 2
            choices = Choices(
                np.concatenate([halves[0].firsts, halves[1].firsts + 2, np.zeros(links, np.int64)]),
                np.concatenate([halves[0].seconds, halves[1].seconds + 2, np.full(links, 3)]),
                np.concatenate([halves[0].wins, halves[1].wins, wins]),
                np.arange(100 + links),
            )
            for place, least in enumerate((1, davidson.LEAST_LINKS)):
                with limited_links(least):
                    found = rank_models(choices, 4).strengths
                if found[0].ci_low is not None:
                    shown[place] += 1
                    held[place] += np.mean(
                        [each.ci_low <= s <= each.ci_high for each, s in zip(found, strengths, strict=True)]
                    )
        cells = " ".join(
            f"shown {100 * count / round_count:5.1f} covered {100 * hits / max(count, 1):5.1f}"
            for count, hits in zip(shown, held, strict=True)
        )
        print(f"two halves joined by {links:>2}: without {cells.replace(' shown', ' with: shown')}", flush=True)


@contextmanager
def limited_links(least: int) -> Iterator[None]:
    """Another limit on the choices that join models, for a while."""
    before, davidson.LEAST_LINKS = davidson.LEAST_LINKS, least
    yield
    davidson.LEAST_LINKS = before


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    main(rounds)
    join_halves(rounds)
