"""How often `gradebook judge improve` finds a better question that is there, and claims one that is not.

    python bench/learning.py [--simulations 1000] [--outputs 60,150]

Simulates people's ratings, a judge with a known fault, and candidate questions with a known effect; the search is the
command's own, `search_candidates`. Prints a line per world and number of rated outputs: how often a rise was accepted,
the mean true rise of the chosen candidates, and the coverage of the rise's interval.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gradebook.rubrics.statistics.improvement import (
    LEAST_CHANGED,
    concordance,
    draw_folds,
    kappa_change,
    search_candidates,
)

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
KEPT = 0.7  # of the chance behind a verdict under another question: errors then correlate by .5, as power assumes
POPULATION = 200_000


@dataclass(frozen=True, slots=True)
class Population:
    """Outputs with people's scores and what makes them hard. mode: whether an output has the special failure."""

    people: Floats
    mode: NDArray[np.bool_]
    clusters: NDArray[np.int64]


Draw = Callable[[np.random.Generator, int], Population]
Judge = Callable[[Floats, Population, str], Floats]  # by chances, (2, output) in 0..1, and the kind of the question


@dataclass(frozen=True, slots=True)
class World:
    """Judge with a fault, and candidates by kind. `same` has no effect, `good` repairs the fault."""

    name: str
    draw: Draw
    judge: Judge
    candidates: tuple[str, ...] = ("good", "same", "bad")


def draw_two_levels(rng: np.random.Generator, count: int) -> Population:
    """Two levels, half of the outputs pass; the outputs of a case, two each, are alike."""
    of_case = np.repeat(rng.normal(0.0, 0.7, -(-count // 2)), 2)[:count]
    people = (of_case + rng.normal(0.0, 0.7, count) > 0).astype(np.float64)
    mode = (people == 0) & (rng.random(count) < 0.4)
    return Population(people, mode, np.arange(count) // 2)


def draw_three_levels(rng: np.random.Generator, count: int) -> Population:
    """Three levels, one output a case."""
    people = rng.choice([0.0, 0.5, 1.0], count, p=[0.25, 0.35, 0.40])
    return Population(people, np.zeros(count, dtype=bool), np.arange(count))


def say_by_accuracy(chances: Floats, given: Population, kind: str) -> Floats:
    """Two levels: accuracy .75, with a good question .85, with a bad one .65."""
    accuracy = {"good": 0.85, "bad": 0.65}.get(kind, 0.75)
    return np.where(chances[0] < accuracy, given.people, 1.0 - given.people)


def say_blindly(chances: Floats, given: Population, kind: str) -> Floats:
    """One failure mode is found 10% of the time, with a good question 85%; other errors: 12%."""
    found = {"good": 0.85}.get(kind, 0.1)
    right = np.where(given.mode, found, 0.82 if kind == "bad" else 0.88)
    return np.where(chances[0] < right, given.people, 1.0 - given.people)


def say_strictly(chances: Floats, given: Population, kind: str) -> Floats:
    """Three levels: 55% of the best get the middle one, with a good question 10%; other errors: 15%."""
    strict = {"good": 0.1, "bad": 0.75}.get(kind, 0.55)
    said = np.where((given.people == 1.0) & (chances[0] < strict), 0.5, given.people)
    step = np.where(chances[1] < 0.075, 0.5, np.where(chances[1] < 0.15, -0.5, 0.0))
    return np.clip(said + step, 0.0, 1.0)


def say_by_place(chances: Floats, given: Population, _kind: str) -> Floats:
    """Position bias: 40% of the verdicts are the level shown first, whatever the question says."""
    return np.where(chances[1] < 0.4, 0.0, say_by_accuracy(chances, given, "good"))


WORLDS = (
    World("rise of kappa by .20", draw_two_levels, say_by_accuracy),
    World("blind to one failure", draw_two_levels, say_blindly),
    World("too strict at one level", draw_three_levels, say_strictly),
    World("noise only", draw_two_levels, say_by_accuracy, ("same", "same", "same")),
    World("noise, three levels", draw_three_levels, say_strictly, ("same", "same", "same")),
    World("position bias", draw_two_levels, say_by_place, ("same", "same", "same")),
    World("overfitted candidates", draw_two_levels, say_by_accuracy, ("overfitted", "overfitted", "overfitted")),
)


class Asked:
    """A judge under candidate questions: one verdict an output and candidate, however often it is asked."""

    def __init__(self, world: World, given: Population, rng: np.random.Generator) -> None:
        self.world, self.given, self.rng = world, given, rng
        self.chances = rng.random((2, given.people.size))
        self.today = world.judge(self.chances, given, "today")
        self.by_candidate: dict[str, Floats] = {}

    def propose(self, half: int, inner: Indices) -> list[str]:
        names = [f"{half}/{index}/{kind}" for index, kind in enumerate(self.world.candidates)]
        for name in names:
            drawn = np.where(
                self.rng.random(self.chances.shape) < KEPT, self.chances, self.rng.random(self.chances.shape)
            )
            said = self.world.judge(drawn, self.given, name.rpartition("/")[2])
            if name.endswith("overfitted"):  # it quotes its examples: right on them, and no better elsewhere
                said[inner] = self.given.people[inner]
            self.by_candidate[name] = said
        return [str(name) for name in self.rng.permutation(names)]

    def judge(self, candidate: str, indices: Indices) -> Floats:
        return self.by_candidate[candidate][indices]


class Truth:
    """Rises of kappa over a large population, by the kinds of question that judge its two halves."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        given = world.draw(rng, POPULATION)
        chances = rng.random((2, POPULATION))
        self.people = given.people
        self.said = {kind: world.judge(chances, given, kind) for kind in {"today", *world.candidates}}
        self.rises: dict[tuple[str, str], float] = {}

    def rise(self, first: str, second: str) -> float:
        if (first, second) not in self.rises:
            half = POPULATION // 2
            after = np.concatenate([self.said[first][:half], self.said[second][half:]])
            today = concordance(self.said["today"], self.people)
            self.rises[first, second] = concordance(after, self.people) - today
        return self.rises[first, second]


def simulate(world: World, count: int, simulations: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    truth = Truth(world, rng)
    accepted, covered, known, rises, questions = 0, 0, 0, [], []
    for _ in range(simulations):
        asked = Asked(world, world.draw(rng, count), rng)
        people, clusters = asked.given.people, asked.given.clusters
        folds = draw_folds(people, asked.today, clusters, rng)
        search = search_candidates(people, asked.today, folds, asked.propose, asked.judge, rng)
        change = kappa_change(asked.today, search.after, people, clusters)
        kinds = ["today" if name is None else name.rpartition("/")[2] for name in search.chosen]
        rise = truth.rise(*kinds)
        rises.append(rise)
        questions.append(search.question_count / count)
        if change.low is not None and change.high is not None:
            known += 1
            covered += change.low <= rise <= change.high
            accepted += change.low > 0 and change.changed_count >= LEAST_CHANGED
    coverage = f"{covered / known:.3f} of {known}" if known else "no interval"
    return (
        f"{world.name:26} {count:5} {accepted / simulations:9.3f} {np.mean(rises):10.3f} "
        f"{np.mean(questions):10.2f} {coverage:>16}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--outputs", default="60,150")
    arguments = parser.parse_args()
    print(f"{'world':26} {'n':>5} {'accepted':>9} {'true rise':>10} {'questions':>10} {'covered':>16}")
    for world in WORLDS:
        for count in map(int, arguments.outputs.split(",")):
            print(simulate(world, count, arguments.simulations, 20_261_130), flush=True)


if __name__ == "__main__":
    main()
