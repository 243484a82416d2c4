"""Sheets, the result of all ratings readers: one person's marks of one output each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

# value: a level or a number, still to be decided; running_score: a score after deductions
Kind = Literal["value", "level", "score", "running_score", "claims"]


class Misfit(ValueError):
    """Reason why a row, or one person's part of it, is not a rating: found .., expected .."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Reference to an output. name: an output's id, or that of a case with one output."""

    output_id: str | None = None
    case_id: str | None = None
    model: str | None = None
    checkpoint: str | None = None
    sample_index: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One criterion marked by a person. criterion: name in the file; value: text, a number, a bool or None.

    For the kind running_score, the value is a tuple of `Slip`, and the rubric determines the criterion; for the kind
    claims it is a tuple of `ClaimMark`.
    """

    criterion: str
    value: Any
    kind: Kind = "value"
    notes: str | None = None
    scheme: str | None = None  # of several in a row, each with its criteria

    @property
    def place(self) -> str:
        """Criterion, after its scheme if it has one."""
        return f"{self.scheme}.{self.criterion}" if self.scheme else self.criterion


@dataclass(frozen=True, slots=True)
class Slip:
    """A person's mark of a step: its label, and its error if it has one."""

    step: str
    error_type: str | None = None
    severity: str | None = None
    label: str | None = None
    error_subtype: str | None = None
    rationale: str | None = None


@dataclass(frozen=True, slots=True)
class Sheet:
    """One person's marks of one output at one time: accepted or refused as a whole."""

    slot: Slot
    rater: str
    rated_at: datetime | None
    notes: str | None
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Naming:
    """Names used by a file. columns: gradebook's column -> the file's; rater: default if no row names one.

    is_criterion: whether a column's name is that of a criterion; other columns of a table are not ratings.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    rater: str | None = None
    is_criterion: Callable[[str], bool] = bool


@dataclass(slots=True)
class LeftOut:
    """Content of a file without a place in ratings, in words, with counts."""

    counts: dict[str, int] = field(default_factory=dict)

    def note(self, words: str) -> None:
        """Count one more occurrence."""
        self.counts[words] = self.counts.get(words, 0) + 1

    def words(self) -> tuple[str, ...]:
        """Each entry with its count."""
        return tuple(f"{words} ({count} times)" if count > 1 else words for words, count in self.counts.items())
