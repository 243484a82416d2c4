"""Ratings of the lake for other systems, each rater's latest, in shapes that `ratings import` reads back.

jsonl, csv      a row a rating; in jsonl the marks of steps and claims in place of the rating that they make
potato          a row an output, rater and time, with levels and notes by criterion
label-studio    a task an output, with an annotation of each rater and time
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from gradebook.rubrics.importers.ratings.tables import NOTES_ENDINGS
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.offered import offered_words
from gradebook.tasks.rubric_store.questions import add_all_answers, add_questions_of_run

_OUTPUT = ("output_id", "case_id", "model", "checkpoint", "sample_index")
_TEXTS = ("prompt", "output")
_WHOSE = ("output_id", "criterion_id", "rater")


def exported_ratings(lake: Lake, run_id: str | None, shape: str) -> list[dict[str, Any]]:
    """Rows of a shape. run_id: only ratings that count in it. Raises `InputError` for an unknown run or no ratings.

    Ratings that their rater took back are left out, and so are decisions of adjudicators, except those about steps: a
    rater's mark has what was settled beside it.
    """
    with connect_up_to_date(lake, is_pinned=True) as connection:
        tables = ("ratings", "step_ratings", "claim_ratings", "step_adjudications")
        if run_id is None:
            add_all_answers(connection, *tables)
        else:
            read_published_run(connection, lake, run_id)
            add_questions_of_run(connection, run_id, *tables)
        rows = read_rows(connection, query("ratings/exported_ratings"), run_id=run_id)
        steps = read_rows(connection, query("ratings/exported_steps"), run_id=run_id) if shape == "jsonl" else []
        claims = read_rows(connection, query("ratings/exported_claims"), run_id=run_id) if shape == "jsonl" else []
        offered = None if rows or claims or run_id is None else offered_words(connection, run_id, lake.words())
    if not rows and not claims:
        found = f"no rating in {lake.name}" if run_id is None else f"no rating that counts in {run_id}"
        raise InputError("export ratings", found, "some", offered or "`gradebook rate` or `gradebook ratings import`")
    match shape:
        case "potato":
            return list(_potato_rows(rows))
        case "label-studio":
            return list(_label_studio_tasks(rows))
        case _:
            marked = {tuple(row[name] for name in _WHOSE): row["steps"] for row in steps}
            made = {tuple(row[name] for name in _WHOSE) for row in claims}
            plain = [row for row in rows if tuple(row[name] for name in _WHOSE) not in made]
            single = [_row(row, marked.get(tuple(row[name] for name in _WHOSE))) for row in plain]
            return [*single, *map(_claims_row, claims)]


def _row(row: Row, steps: list[Row] | None) -> dict[str, Any]:
    """A rating's own row, or the marks of steps that it was made of."""
    if steps is None:
        return _flat(row)
    marks = [_given(mark) for mark in steps]
    for mark in marks:
        if "settled" in mark:  # a lead's decision; it is no rating, and an import leaves it out
            mark["settled"] = {"label": None, **_given(mark["settled"])}
    whose = {"criterion_id": row["criterion_id"], "rater": row["rater"], "rated_at": _moment(row)}
    return _slot(row) | whose | {"steps": marks}


def _claims_row(row: Row) -> dict[str, Any]:
    """A rater's verdicts on the claims of an output, in place of the rating that they make."""
    marks = [_given(mark) for mark in row["claims"]]
    named = {"criterion_id": row["criterion_id"], "rater": row["rater"], "rated_at": _moment(row)}
    return _slot(row) | named | {"claims": marks}


def _given(mark: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mark.items() if value is not None}


def _flat(row: Row) -> dict[str, Any]:
    """A rating's own row. It has a level or, without one, a score: a file with both would say one thing twice."""
    kept = {name: value for name, value in row.items() if name not in _TEXTS}
    return kept | {"score": None if row["level_id"] is not None else row["score"], "rated_at": _moment(row)}


def _potato_rows(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for _, sheet in groupby(rows, key=lambda row: (row["output_id"], row["rater"], row["rated_at"])):
        first, *others = sheet
        slot = _slot(first)
        yield {
            "id": slot["output_id"],
            **{name: value for name, value in slot.items() if name != "output_id"},
            "user_id": first["rater"],
            "timestamp": _moment(first),
            "label_annotations": {"rubric": {row["criterion_id"]: _value(row) for row in (first, *others)}},
            "notes": {row["criterion_id"]: row["notes"] for row in (first, *others) if row["notes"]} or None,
        }


def _label_studio_tasks(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for _, rated in groupby(rows, key=lambda row: row["output_id"]):
        marks = list(rated)
        annotations = []
        for _, sheet in groupby(marks, key=lambda row: (row["rater"], row["rated_at"])):
            first, *others = sheet
            results = [each for row in (first, *others) for each in _results(row)]
            annotations.append({"completed_by": first["rater"], "updated_at": _moment(first), "result": results})
        yield {"data": _slot(marks[0]) | {name: marks[0][name] for name in _TEXTS}, "annotations": annotations}


def _results(row: Row) -> Iterator[dict[str, Any]]:
    name = row["criterion_id"]
    if row["level_id"] is None:
        yield {"from_name": name, "to_name": "output", "type": "number", "value": {"number": row["score"]}}
    else:
        yield {"from_name": name, "to_name": "output", "type": "choices", "value": {"choices": [row["level_id"]]}}
    if row["notes"]:
        note = {"from_name": name + NOTES_ENDINGS[0], "to_name": "output", "type": "textarea"}
        yield note | {"value": {"text": [row["notes"]]}}


def _slot(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in _OUTPUT if row[name] is not None}


def _value(row: Row) -> str:
    """The level, or the score as a text: Potato's numbers are texts."""
    return str(row["level_id"] if row["level_id"] is not None else row["score"])


def _moment(row: Row) -> str | None:
    rated_at: datetime | None = row["rated_at"]
    return None if rated_at is None else rated_at.isoformat()
