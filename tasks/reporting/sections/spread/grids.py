"""Grid of selectable thresholds, with the number of each model's outputs that meet each threshold."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.system.number_format import score_words, share_words

STEP = 0.005
MOST_STEPS = 1000
DIGITS = 9  # of a threshold; rounding to them changes less than the rounding error of a float sum


@dataclass(frozen=True, slots=True)
class Grid:
    """Equidistant thresholds. low: the first; count: their number; start: place of the threshold shown first."""

    low: float
    step: float
    count: int
    start: int

    def at(self, place: int) -> float:
        """Threshold at a place, from 0."""
        return round(self.low + place * self.step, DIGITS)

    @property
    def words(self) -> list[str]:
        """All thresholds as text."""
        return [score_words(self.at(place)) for place in range(self.count)]


def grid_of(lowest: float, highest: float, start: float) -> Grid:
    """Grid over a range of scores that contains `start`, in steps of 0.005, or wider if there would be too many."""
    low, high = min(lowest, start), max(highest, start)
    step = STEP * max(math.ceil((high - low) / (STEP * MOST_STEPS)), 1)
    below = math.ceil((start - low) / step - 1e-6)
    above = math.ceil((high - start) / step - 1e-6)
    if below + above == 0:  # all outputs have the same score
        below = 10
    return Grid(round(start - below * step, DIGITS), step, below + above + 1, below)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Number of a model's outputs that meet each threshold of a grid. n: outputs with a score; counts: by place.

    colour: name in pages/theme.yaml. is_baseline: whether the outputs are those of the baseline run.
    """

    name: str
    colour: str
    is_baseline: bool
    n: int
    counts: tuple[int, ...]

    def share(self, place: int) -> str:
        """Share of outputs that meet the threshold at a place, as text."""
        return share_words(self.counts[place], self.n)


def counts_met(grid: Grid, rows: Iterable[Row]) -> tuple[int, ...]:
    """Counts of a `Meeting`. rows: of one model, from sql/queries/reporting/steps_met.sql."""
    last_met = [0] * grid.count
    for row in rows:
        if row["step"] >= 0:
            last_met[min(row["step"], grid.count - 1)] += row["n"]
    return tuple(accumulate(reversed(last_met)))[::-1]


def meeting_words(grid: Grid, meetings: Sequence[Meeting], place: int) -> str:
    """Sentence about a threshold: the two models with the largest shares, or a single model and its baseline.

    The page's script writes the same sentence when the threshold moves.
    """
    scored = [meeting for meeting in meetings if meeting.n]
    own = [meeting for meeting in scored if not meeting.is_baseline]
    best_first = sorted(own, key=lambda meeting: -meeting.counts[place] / meeting.n)
    best, *others = best_first if len(own) > 1 else [*own, *(each for each in scored if each.is_baseline)]
    words = f"{best.share(place)} of the outputs of {best.name} meet {grid.words[place]}"
    return f"{words}, {others[0].share(place)} of those of {others[0].name}." if others else f"{words}."
