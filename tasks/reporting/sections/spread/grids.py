"""The thresholds that a reader can choose from, and how many of each model's outputs meet each of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.system.number_format import score_words, share_words

STEP = 0.005
MOST_STEPS = 1000
DIGITS = 9  # of a threshold: what is left out is less than what a float sum can be off


@dataclass(frozen=True, slots=True)
class Grid:
    """Thresholds at even steps. low: the first; count: how many there are; start: the place of the first one shown."""

    low: float
    step: float
    count: int
    start: int

    def at(self, place: int) -> float:
        """The threshold at a place, from 0."""
        return round(self.low + place * self.step, DIGITS)

    @property
    def words(self) -> list[str]:
        """Every threshold as people read it."""
        return [score_words(self.at(place)) for place in range(self.count)]


def grid_of(lowest: float, highest: float, start: float) -> Grid:
    """The grid over a range of scores that has `start` on it, in steps of 0.005; wider ones where that is too many."""
    low, high = min(lowest, start), max(highest, start)
    step = STEP * max(math.ceil((high - low) / (STEP * MOST_STEPS)), 1)
    below = math.ceil((start - low) / step - 1e-6)
    above = math.ceil((high - start) / step - 1e-6)
    if below + above == 0:  # all outputs have one score
        below = 10
    return Grid(round(start - below * step, DIGITS), step, below + above + 1, below)


@dataclass(frozen=True, slots=True)
class Meeting:
    """How many outputs of one model meet each threshold of a grid. n: its outputs with a score; counts: by place.

    colour: its name in pages/theme.yaml; is_baseline: whether it is of the run that this one is compared with.
    """

    name: str
    colour: str
    is_baseline: bool
    n: int
    counts: tuple[int, ...]

    def share(self, place: int) -> str:
        """The share that meets the threshold at a place, in words."""
        return share_words(self.counts[place], self.n)


def counts_met(grid: Grid, rows: Iterable[Row]) -> tuple[int, ...]:
    """The counts of a `Meeting`. rows: of sql/queries/reporting/steps_met.sql, one model's."""
    last_met = [0] * grid.count
    for row in rows:
        if row["step"] >= 0:
            last_met[min(row["step"], grid.count - 1)] += row["n"]
    return tuple(accumulate(reversed(last_met)))[::-1]


def meeting_words(grid: Grid, meetings: Sequence[Meeting], place: int) -> str:
    """The sentence about a threshold: of the two models that most of whose outputs meet it, or of one and its baseline.

    The page's script says the same words while the threshold moves.
    """
    scored = [meeting for meeting in meetings if meeting.n]
    own = [meeting for meeting in scored if not meeting.is_baseline]
    best_first = sorted(own, key=lambda meeting: -meeting.counts[place] / meeting.n)
    best, *others = best_first if len(own) > 1 else [*own, *(each for each in scored if each.is_baseline)]
    words = f"With {best.name}, {best.share(place)} of outputs meet {grid.words[place]}"
    return f"{words}, with {others[0].name} {others[0].share(place)}." if others else f"{words}."
