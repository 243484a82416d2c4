"""Ratings in tables and JSON Lines: a row per criterion (long) or per output (wide), rated traces, claims.

JSON Lines of rated traces: {trace_id, annotator, timestamp, rubric: {criteria_ratings, overall, notes}}.
`criteria_notes` has notes by criterion. `weighted_score` follows from the ratings and is ignored. Lines may also be
flat, as the rows of a table, or have the errors of a trajectory, alone or with the ratings.

Verdicts of a person on the claims of an output.
A row is {output_id, rater, rated_at, criterion_id, claims: [{claim, verdict, side, rationale}]}, as `people export`
writes it. `criterion_id` may be left out where one criterion has the method `claims`; `side` is `output` by default.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradebook.rubrics.importers.ratings.sheets import (
    Kind,
    LeftOut,
    Mark,
    Misfit,
    Naming,
    Sheet,
    cell_of,
    known_columns,
    name_text,
    names_of,
    notes_text,
    read_moment,
    read_notes,
    read_rater,
    read_slot,
    shown_value,
)
from gradebook.rubrics.importers.ratings.trajectory import is_trajectory, read_trajectory_row
from gradebook.rubrics.model.claim_marks import CLAIM_LEVELS, ClaimMark
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.rubric import OVERALL

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
    mark_columns = [(column, kind) for column, kind in _MARK_COLUMNS if cell_of(column, row, naming) is not None]
    if len(mark_columns) > 1:
        column_names = " and ".join(column for column, _ in mark_columns)
        raise Misfit(f"{criterion}: found {column_names}, expected one of level_id, score and rating")
    if not any(name in row for column, _ in _MARK_COLUMNS for name in names_of(column, naming)):
        # If this were read as "not applicable", a rating in another column would be lost.
        raise Misfit(f"{criterion}: found {shown_value(', '.join(sorted(row)))}, expected level_id, score or rating")
    if not mark_columns:
        return Mark(criterion, None, notes=read_notes(row, naming))
    ((column, kind),) = mark_columns
    return Mark(criterion, cell_of(column, row, naming), kind, read_notes(row, naming))


def _wide_marks(row: Row, naming: Naming, left_out: LeftOut) -> tuple[Mark, ...]:
    other_columns = known_columns(naming) - {name for column in _LONG_ONLY for name in names_of(column, naming)}
    marks = []
    for name, value in row.items():
        if name in other_columns:
            continue
        if naming.is_criterion(name):
            marks.append(marked(name, value, notes=_notes_of_criterion(name, row)))
        elif (criterion := _criterion_of_scheme(name, value, naming)) is not None:
            marks += [] if value in (None, "") else [Mark(criterion, value, scheme=name.partition(".")[0])]
        elif not _is_notes_column(name, row, naming):
            left_out.note(f"the column {name}")
    return tuple(marks)


def _criterion_of_scheme(name: str, value: Any, naming: Naming) -> str | None:
    """Criterion of Potato's column SCHEME.LABEL: the label, or a Likert scheme whose value is the label."""
    scheme, dot, label = name.partition(".")
    if not dot:
        return None
    if naming.is_criterion(label):
        return label
    return scheme if naming.is_criterion(scheme) and value in (None, "", label) else None


def marked(criterion: str, value: Any, notes: str | None = None) -> Mark:
    """Mark from a bare value or from a mapping: {rating, notes}. Raises `Misfit`."""
    if not isinstance(value, dict):
        return Mark(criterion, value, notes=notes)
    if not any(name in value for name, _ in _MARK_KEYS):
        # If this were read as "not applicable", a rating under another key would be lost.
        actual = f"found {shown_value(', '.join(sorted(value)))}"
        raise Misfit(f"{criterion}: {actual}, expected one rating of rating, value, score or level")
    marks = [(value[name], kind) for name, kind in _MARK_KEYS if value.get(name) is not None]
    texts = [value[name] for name in ("notes", "comment", "rationale") if value.get(name) is not None]
    if len(marks) > 1 or len(texts) > 1:
        raise Misfit(f"{criterion}: found {shown_value(', '.join(sorted(value)))}, expected one rating and its notes")
    mark_notes = notes_text(texts[0]) if texts else notes
    return Mark(criterion, *marks[0], mark_notes) if marks else Mark(criterion, None, notes=mark_notes)


def _is_notes_column(name: str, row: Row, naming: Naming) -> bool:
    """Whether the column has notes on a criterion that has a column too."""
    stems = [name.removesuffix(ending) for ending in NOTES_ENDINGS if name.endswith(ending)]
    return any(stem in row and naming.is_criterion(stem) for stem in stems)


def _notes_of_criterion(criterion: str, row: Row) -> str | None:
    return notes_text(next((text for end in NOTES_ENDINGS if (text := row.get(criterion + end))), None))


_RUBRIC_KEYS = ("criteria_ratings", OVERALL, "notes", "criteria_notes", "weighted_score")


def is_rated_trace(row: Row) -> bool:
    """Whether a row is a rated trace, with `criteria_ratings`."""
    return isinstance(row.get("rubric"), dict) and "criteria_ratings" in row["rubric"]


def read_json_row(row: Row, naming: Naming, left_out: LeftOut) -> Sequence[Sheet]:
    """Sheet of a line. Raises `Misfit`."""
    if is_rated_trace(row):
        sheet = _read_rated_trace(row, naming, left_out)
        if is_trajectory(row):
            sheet = replace(sheet, marks=(*sheet.marks, *read_trajectory_row(row, naming).marks))
        return [sheet]
    if is_trajectory(row):
        return [read_trajectory_row(row, naming)]
    if has_claims(row):
        return [read_claims_row(row, naming)]
    if isinstance(row.get("rubric"), dict):
        raise Misfit(f"rubric: found {shown_value(sorted(row['rubric']))}, expected criteria_ratings in it")
    return read_table_row(row, naming, left_out)


def _read_rated_trace(row: Row, naming: Naming, left_out: LeftOut) -> Sheet:
    rubric = row["rubric"]
    for name in rubric:
        if name not in _RUBRIC_KEYS:
            left_out.note(f"rubric.{name}")
    ratings = rubric["criteria_ratings"]
    if not isinstance(ratings, dict):
        raise Misfit(f"criteria_ratings: found {shown_value(ratings)}, expected a mapping of criteria to ratings")
    criteria_notes = rubric.get("criteria_notes") or {}
    if not isinstance(criteria_notes, dict) or criteria_notes.keys() - ratings.keys():
        raise Misfit(
            f"criteria_notes: found {shown_value(criteria_notes)}, expected notes by criterion that the row rates"
        )
    marks: list[Mark] = [marked(name, value) for name, value in ratings.items()]
    marks = [replace(mark, notes=mark.notes or notes_text(criteria_notes.get(mark.criterion))) for mark in marks]
    if rubric.get(OVERALL) is not None:
        marks.append(Mark(OVERALL, rubric[OVERALL]))
    notes = notes_text(rubric.get("notes") or None) or read_notes(row, naming)
    return Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), notes, tuple(marks))


MOST_CLAIMS = 10_000
SIDES = ("output", "reference")
_VERDICTS = {level.id: level.id for level in CLAIM_LEVELS} | {"not in source": "not_in_source"}


def has_claims(row: Row) -> bool:
    """Whether a row lists verdicts on claims."""
    claims = row.get("claims")
    return isinstance(claims, list) and all(isinstance(entry, dict) for entry in claims)


def read_claims_row(row: Row, naming: Naming) -> Sheet:
    """Sheet of a row, with one mark that has the verdicts and the person's notes. Raises `Misfit`."""
    claims = row["claims"]
    if len(claims) > MOST_CLAIMS:
        raise Misfit(f"claims: found {len(claims):,}, expected at most {MOST_CLAIMS:,}")
    marks = tuple(_mark(entry, index) for index, entry in enumerate(claims))
    claim_keys = [(mark.side, mark.claim) for mark in marks]
    if len(set(claim_keys)) < len(claim_keys):
        raise Misfit("claims: found a claim twice, expected each once")
    criterion_id = name_text("criterion_id", row.get("criterion_id")) or ""
    mark = Mark(criterion_id, marks, "claims", read_notes(row, naming))
    return Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), None, (mark,))


def _mark(entry: dict[str, Any], index: int) -> ClaimMark:
    where = f"claims[{index}]"
    claim, verdict, side = entry.get("claim"), entry.get("verdict"), entry.get("side") or SIDES[0]
    if not isinstance(claim, str) or not claim:
        raise Misfit(f"{where}.claim: found {shown_value(claim)}, expected the claim's words")
    if side not in SIDES:
        raise Misfit(f"{where}.side: found {shown_value(side)}, expected one of {', '.join(SIDES)}")
    verdict_value = _VERDICTS.get(verdict.strip().lower()) if isinstance(verdict, str) else None
    if verdict_value is None and verdict is not None:
        expected = ", ".join(level.id for level in CLAIM_LEVELS)
        raise Misfit(f"{where}.verdict: found {shown_value(verdict)}, expected one of {expected}, or null")
    return ClaimMark(side, claim, verdict_value, notes_text(entry.get("rationale")))
