"""JSON Lines of rated traces: {trace_id, annotator, timestamp, rubric: {criteria_ratings, overall, notes}}.

`weighted_score` follows from the ratings and is ignored. Lines may also be flat, as the rows of a table, or have the
errors of a trajectory, alone or beside the ratings.
"""

from collections.abc import Sequence
from dataclasses import replace

from gradebook.rubrics.importers.ratings.claims import has_claims, read_claims_row
from gradebook.rubrics.importers.ratings.columns import (
    notes_text,
    read_moment,
    read_notes,
    read_rater,
    read_slot,
    words_of,
)
from gradebook.rubrics.importers.ratings.shapes import LeftOut, Mark, Misfit, Naming, Sheet
from gradebook.rubrics.importers.ratings.tables import marked, read_table_row
from gradebook.rubrics.importers.ratings.trajectory import is_trajectory, read_trajectory_row
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import OVERALL

_RUBRIC_KEYS = ("criteria_ratings", OVERALL, "notes", "weighted_score")


def is_rated_trace(row: Row) -> bool:
    """Whether a row has the shape with `criteria_ratings`."""
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
        raise Misfit(f"rubric: found {words_of(sorted(row['rubric']))}, expected criteria_ratings in it")
    return read_table_row(row, naming, left_out)


def _read_rated_trace(row: Row, naming: Naming, left_out: LeftOut) -> Sheet:
    rubric = row["rubric"]
    for name in rubric:
        if name not in _RUBRIC_KEYS:
            left_out.note(f"rubric.{name}")
    ratings = rubric["criteria_ratings"]
    if not isinstance(ratings, dict):
        raise Misfit(f"criteria_ratings: found {words_of(ratings)}, expected a mapping of criteria to ratings")
    marks: list[Mark] = [marked(name, value) for name, value in ratings.items()]
    if rubric.get(OVERALL) is not None:
        marks.append(Mark(OVERALL, rubric[OVERALL]))
    notes = notes_text(rubric.get("notes") or None) or read_notes(row, naming)
    return Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), notes, tuple(marks))
