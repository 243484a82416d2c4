"""Ratings in tables: one row per criterion (long), or one row per output with one column per criterion (wide)."""

from collections.abc import Sequence
from typing import Any

from gradebook.rubrics.importers.ratings.columns import (
    cell_of,
    known_columns,
    name_text,
    names_of,
    notes_text,
    read_moment,
    read_notes,
    read_rater,
    read_slot,
    words_of,
)
from gradebook.rubrics.importers.ratings.shapes import Kind, LeftOut, Mark, Misfit, Naming, Sheet
from gradebook.rubrics.model.rows import Row

NOTES_ENDINGS = ("_notes", "_comment", "_comments")
_MARK_COLUMNS: tuple[tuple[str, Kind], ...] = (("level_id", "level"), ("score", "score"), ("value", "value"))
# Possible criteria in a wide table.
_LONG_ONLY = ("level_id", "score", "value")
# In a mapping: {"rating": 4, "notes": "warm"}.
_MARK_KEYS: tuple[tuple[str, Kind], ...] = (
    ("rating", "value"),
    ("value", "value"),
    ("score", "score"),
    ("level", "level"),
)


def read_table_row(row: Row, naming: Naming, left_out: LeftOut) -> Sequence[Sheet]:
    """Sheet of a row, long or wide. Raises `Misfit`."""
    marks = (_long_mark(row, naming),) if is_long(row, naming) else _wide_marks(row, naming, left_out)
    notes = None if is_long(row, naming) else read_notes(row, naming)
    return [Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), notes, marks)]


def is_long(row: Row, naming: Naming) -> bool:
    """Whether a row names its criterion in a column."""
    return any(name in row for name in names_of("criterion_id", naming))


def _long_mark(row: Row, naming: Naming) -> Mark:
    criterion = name_text("criterion_id", cell_of("criterion_id", row, naming))
    if criterion is None:
        raise Misfit("criterion_id: found nothing, expected a criterion")
    given = [(column, kind) for column, kind in _MARK_COLUMNS if cell_of(column, row, naming) is not None]
    if len(given) > 1:
        found = " and ".join(column for column, _ in given)
        raise Misfit(f"{criterion}: found {found}, expected one of level_id, score and rating")
    if not any(name in row for column, _ in _MARK_COLUMNS for name in names_of(column, naming)):
        # If this were read as "not applicable", a rating in another column would be lost.
        raise Misfit(f"{criterion}: found {words_of(', '.join(sorted(row)))}, expected level_id, score or rating")
    if not given:
        return Mark(criterion, None, notes=read_notes(row, naming))
    ((column, kind),) = given
    return Mark(criterion, cell_of(column, row, naming), kind, read_notes(row, naming))


def _wide_marks(row: Row, naming: Naming, left_out: LeftOut) -> tuple[Mark, ...]:
    known = known_columns(naming) - {name for column in _LONG_ONLY for name in names_of(column, naming)}
    marks = []
    for name, value in row.items():
        if name in known:
            continue
        if naming.is_criterion(name):
            marks.append(marked(name, value, notes=_notes_beside(name, row)))
        elif not _is_notes_column(name, row, naming):
            left_out.note(f"the column {name}")
    return tuple(marks)


def marked(criterion: str, value: Any, notes: str | None = None) -> Mark:
    """Mark from a bare value or from a mapping: {rating, notes}. Raises `Misfit`."""
    if not isinstance(value, dict):
        return Mark(criterion, value, notes=notes)
    if not any(name in value for name, _ in _MARK_KEYS):
        # If this were read as "not applicable", a rating under another key would be lost.
        found = f"found {words_of(', '.join(sorted(value)))}"
        raise Misfit(f"{criterion}: {found}, expected one rating of rating, value, score or level")
    marks = [(value[name], kind) for name, kind in _MARK_KEYS if value.get(name) is not None]
    words = [value[name] for name in ("notes", "comment", "rationale") if value.get(name) is not None]
    if len(marks) > 1 or len(words) > 1:
        raise Misfit(f"{criterion}: found {words_of(', '.join(sorted(value)))}, expected one rating and its notes")
    beside = notes_text(words[0]) if words else notes
    return Mark(criterion, *marks[0], beside) if marks else Mark(criterion, None, notes=beside)


def _is_notes_column(name: str, row: Row, naming: Naming) -> bool:
    """Whether it contains a person's notes on a criterion that has a column too."""
    stems = [name.removesuffix(ending) for ending in NOTES_ENDINGS if name.endswith(ending)]
    return any(stem in row and naming.is_criterion(stem) for stem in stems)


def _notes_beside(criterion: str, row: Row) -> str | None:
    return notes_text(next((text for end in NOTES_ENDINGS if (text := row.get(criterion + end))), None))
