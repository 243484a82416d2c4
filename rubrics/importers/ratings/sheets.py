"""Sheets, the result of all ratings readers: one person's marks of one output each.

Columns that identify the rated output, the rater and the time have usual names in files.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from gradebook.rubrics.importers.foreign_file import printable
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.text.plain_words import quote_value

# value: a level or a number, still to be decided; running_score: a score after deductions
Kind = Literal["value", "level", "score", "running_score", "claims"]


class Misfit(ValueError):
    """Error: reason why a row, or one person's part of it, is no rating: found .., expected .."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Reference to an output. name: id of the output, or of a case with one output."""

    output_id: str | None = None
    case_id: str | None = None
    model: str | None = None
    checkpoint: str | None = None
    sample_index: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One criterion marked by a person. criterion: name in the file; value: text, a number, a bool or None.

    For the kind running_score, the value is a tuple of `MarkedStep`, and the rubric determines the criterion; for the
    kind claims it is a tuple of `ClaimMark`.
    """

    criterion: str
    value: Any
    kind: Kind = "value"
    notes: str | None = None
    scheme: str | None = None  # name of the criterion's group, if a row has several groups of criteria

    @property
    def place(self) -> str:
        """Name for messages: the criterion, after its scheme if it has one."""
        return f"{self.scheme}.{self.criterion}" if self.scheme else self.criterion


@dataclass(frozen=True, slots=True)
class MarkedStep:
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
    better_than: tuple[Slot, ...] = ()  # outputs that the person finds worse; the notes are then about this preference
    likert_value: float | None = None  # strength of that preference, on the source's own scale


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
    """Counter of remarks on content that has no place in ratings."""

    counts: dict[str, int] = field(default_factory=dict)

    def note(self, remark: str) -> None:
        """Count one more occurrence."""
        self.counts[remark] = self.counts.get(remark, 0) + 1

    def words(self) -> tuple[str, ...]:
        """Remarks, each with its count."""
        return tuple(f"{remark} ({count} times)" if count > 1 else remark for remark, count in self.counts.items())


LONGEST_NAME = 1_000  # characters of an id, a model or a rater
LONGEST_NOTES = 100_000
LARGEST_SAMPLE_INDEX = 2**31 - 1
LEAST_SECONDS = 1e9  # Unix time of September 2001; smaller numbers are years, ranks or ids, not timestamps
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

# The first name that a row has counts.
COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "output_id": ("output_id",),
    "case_id": ("case_id",),
    "model": ("model",),
    "checkpoint": ("checkpoint",),
    "sample_index": ("sample_index",),
    "name": ("trace_id", "instance_id", "id"),
    "rater": ("rater", "annotator", "annotator_id", "user_id", "user", "worker_id"),
    "rated_at": ("rated_at", "timestamp", "annotated_at", "updated_at", "created_at"),
    "notes": ("notes", "comment", "comments"),
    "criterion_id": ("criterion_id", "criterion"),
    "level_id": ("level_id", "level"),
    "score": ("score",),
    "value": ("rating", "value"),
}
MAPPED = tuple(column for column in COLUMN_NAMES if column != "name")
_MOMENT = TypeAdapter(datetime)
_DAY = re.compile(r"[0-9]{8}")
_DIGITS = re.compile(r"[0-9]{1,10}(\.0+)?")


def map_fault(columns: Mapping[str, str]) -> str | None:
    """Fault of a column map (gradebook's -> the file's); None if there is none."""
    for column, name in columns.items():
        if column not in MAPPED:
            turned = f"; {name}={column} is the correct order" if name in MAPPED else ""
            return f"--map {column}={name}: found {column}, expected one of {', '.join(MAPPED)}{turned}"
    return None


def names_of(column: str, naming: Naming) -> tuple[str, ...]:
    """Possible names of a column in a file; a single name if the column is mapped."""
    return (naming.columns[column],) if column in naming.columns else COLUMN_NAMES[column]


def known_columns(naming: Naming) -> set[str]:
    """All names of columns that are not criteria."""
    return {name for column in COLUMN_NAMES for name in names_of(column, naming)}


def cell_of(column: str, row: Row, naming: Naming) -> Any:
    """Value of a column; None if it is missing or an empty text."""
    return next((row[name] for name in names_of(column, naming) if row.get(name) not in (None, "")), None)


def read_slot(row: Row, naming: Naming) -> Slot:
    """Output that a row is about. Raises `Misfit`."""
    texts = {column: name_text(column, cell_of(column, row, naming)) for column in ("output_id", "case_id", "model")}
    slot = Slot(
        **texts,
        checkpoint=name_text("checkpoint", cell_of("checkpoint", row, naming)),
        sample_index=_sample_index(cell_of("sample_index", row, naming)),
        name=None if texts["output_id"] or texts["case_id"] else name_text("trace_id", cell_of("name", row, naming)),
    )
    if not (slot.output_id or slot.case_id or slot.name):
        raise Misfit("found no output_id, case_id or trace_id, expected one; --map case_id=COLUMN names another column")
    return slot


def read_rater(row: Row, naming: Naming) -> str:
    """Rater of a row. Raises `Misfit`."""
    rater = name_text("rater", cell_of("rater", row, naming)) or naming.rater
    if rater is None:
        expected = "expected a value; --map rater=COLUMN names another column, --rater NAME the one person"
        raise Misfit(f"rater: found nothing, {expected}")
    return rater


def read_moment(row: Row, naming: Naming) -> datetime | None:
    """Time of the rating; UTC without a time zone. Raises `Misfit`."""
    return moment(cell_of("rated_at", row, naming))


def moment(value: Any) -> datetime | None:
    """Parse a timestamp; without a time zone it is UTC. Eight digits are YYYYMMDD. Raises `Misfit`."""
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        parsed = _day(value) or _MOMENT.validate_python(value)
        parsed = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValidationError, ValueError, OverflowError):
        raise Misfit(f"rated_at: found {shown_value(value)}, expected a date and time") from None
    if not EARLIEST <= parsed < LATEST:
        raise Misfit(f"rated_at: found the year {parsed.year}, expected {EARLIEST.year} to {LATEST.year - 1}")
    return parsed


def _day(value: Any) -> datetime | None:
    """Day from eight digits; None if the value is not a number. Raises `ValueError` for any number that is not a
    timestamp.
    """
    if isinstance(value, str | int) and _DAY.fullmatch(str(value)):
        return datetime.strptime(str(value), "%Y%m%d").replace(tzinfo=UTC)
    number = _number(value)
    if number is not None and number < LEAST_SECONDS:
        raise ValueError(value)
    return None


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None


def read_notes(row: Row, naming: Naming) -> str | None:
    """Notes of the rater. Raises `Misfit`."""
    return notes_text(cell_of("notes", row, naming))


def notes_text(value: Any) -> str | None:
    """Text, or the texts of a list with one line each; None if there is none. Raises `Misfit`."""
    texts = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in texts):
        raise Misfit(f"notes: found {shown_value(value)}, expected text")
    text = "\n".join(part for part in texts if part.strip())
    if len(text) > LONGEST_NOTES:
        raise Misfit(f"notes: found {len(text):,} characters, expected at most {LONGEST_NOTES:,}")
    return text.replace("\0", "") or None


def name_text(column: str, value: Any) -> str | None:
    """Name as text; a whole number is accepted too. Raises `Misfit`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Misfit(f"{column}: found {shown_value(value)}, expected text or a whole number")
    try:
        text = str(value)
    except ValueError:  # Python does not write numbers of more than 4,300 digits
        raise Misfit(f"{column}: found {shown_value(value)}, expected a name") from None
    if not text.strip() or len(text) > LONGEST_NAME:
        actual = f"found {len(text):,} characters" if text.strip() else "found blank text"
        raise Misfit(f"{column}: {actual}, expected a name of at most {LONGEST_NAME:,}")
    if "\0" in text:
        raise Misfit(f"{column}: found a null character, expected none in a name")
    return text


def shown_value(value: Any) -> str:
    """Value for a message, without half characters and without the hint about YAML."""
    return printable(str(value).lower() if isinstance(value, bool) else quote_value(value))


def repeated_words(name: str, what: str) -> str:
    """Message about a repeated name."""
    return f"{what}: found {name!r} twice, expected it once"


def _sample_index(value: Any) -> int | None:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value.partition(".")[0])
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_SAMPLE_INDEX:
        raise Misfit(
            f"sample_index: found {shown_value(value)}, expected a whole number of 0 to {LARGEST_SAMPLE_INDEX}"
        )
    return value
