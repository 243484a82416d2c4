"""What a reader of ratings gives: sheets, one person's marks of one output each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Row = dict[str, Any]
# value: a level or a number, whichever it turns out to be; penalty: a score that takes from a full running score
Kind = Literal["value", "level", "score", "running_score"]
OVERALL = "overall"  # what a mark of the whole output is called, where it is no criterion's


class Misfit(ValueError):
    """Why a row, or what one person says in it, is no rating: found .., expected .."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Which output is meant. name: an output's id, or a case's where that has one output."""

    output_id: str | None = None
    case_id: str | None = None
    model: str | None = None
    checkpoint: str | None = None
    sample_index: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One criterion as a person marked it. criterion: as the file names it; value: text, a number, a truth or None.

    Of the kind running_score the value is a tuple of `Slip`, and the rubric says whose criterion it is.
    """

    criterion: str
    value: Any
    kind: Kind = "value"
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Slip:
    """An error in a step of a trajectory."""

    step: str
    error_type: str
    severity: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """What one person says of one output at one time: it is taken whole or not at all."""

    slot: Slot
    rater: str
    rated_at: datetime | None
    notes: str | None
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Naming:
    """How a file names things. columns: gradebook's column -> the file's; rater: who rated where no row says it.

    is_criterion: whether a column's name is that of a criterion; what other columns of a table hold is no rating.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    rater: str | None = None
    is_criterion: Callable[[str], bool] = bool


@dataclass(slots=True)
class LeftOut:
    """What a file says and no rating holds, in words, and how often."""

    counts: dict[str, int] = field(default_factory=dict)

    def note(self, words: str) -> None:
        """Take note of it once more."""
        self.counts[words] = self.counts.get(words, 0) + 1

    def words(self) -> tuple[str, ...]:
        """Each with its count."""
        return tuple(f"{words} ({count} times)" if count > 1 else words for words, count in self.counts.items())
