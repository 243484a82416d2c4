"""Ratings of the lake for other systems, each rater's latest, in shapes that `people ratings import` reads back.

jsonl, csv      a row a rating; in jsonl the marks of steps and claims in place of the rating that they make
potato          a row an output, rater and time: `rubric` with `criteria_ratings` by the scheme's names, overall, notes
                and `weighted_score`, as Potato's own analysis reads them
label-studio    a task an output, with an annotation of each rater and time

With a run, a rater's sheet of an output has its score by the run's rubric, 0..1, and the same on the scale of the
weighted criteria, if they share one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from gradebook.rubrics.files.case_criteria import read_case_criteria_text
from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.importers.metadata import imported_metadata
from gradebook.rubrics.importers.ratings.tables import NOTES_ENDINGS
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import drop_none
from gradebook.rubrics.model.rubric import OVERALL, Rubric
from gradebook.rubrics.model.scores import ScoreRule, on_scale, rating_scale
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.offered import offered_note
from gradebook.tasks.rubric_store.questions import add_all_answers, add_questions_of_run

_OUTPUT = ("output_id", "case_id", "model", "checkpoint", "sample_index")
_TEXTS = ("prompt", "output")
_NO_COLUMNS = (*_TEXTS, "criteria")  # of a rating's own row
_WHOSE = ("output_id", "criterion_id", "rater")


def exported_ratings(lake: Lake, run_id: str | None, shape: str) -> list[dict[str, Any]]:
    """Rows of a shape. run_id: only ratings that count in it. Raises `InputError` for an unknown run or no ratings.

    Retracted ratings and decisions of adjudicators are left out. A decision about a step is exported with the rater's
    mark of that step.
    """
    rubric = None
    with connect_up_to_date(lake, is_pinned=True) as connection:
        tables = ("ratings", "step_ratings", "claim_ratings", "step_adjudications")
        if run_id is None:
            add_all_answers(connection, *tables)
        else:
            body = read_published_run(connection, lake, run_id, query("published/run_with_rubric"))["body"]
            rubric = None if body is None else rubric_from_body(body)
            add_questions_of_run(connection, run_id, *tables)
        rows = list(read_rows(connection, query("ratings/exported_ratings"), run_id=run_id))
        steps = read_rows(connection, query("ratings/exported_steps"), run_id=run_id) if shape == "jsonl" else []
        claims = read_rows(connection, query("ratings/exported_claims"), run_id=run_id) if shape == "jsonl" else []
        unmet = [] if run_id is None else read_rows(connection, query("ratings/unmet_conditions"), run_ids=[run_id])
        offered = None if rows or claims or run_id is None else offered_note(connection, run_id, lake.words())
    if not rows and not claims:
        what = f"no rating in {lake.name}" if run_id is None else f"no rating that counts in {run_id}"
        raise InputError(
            "people export", what, "some", offered or "`gradebook people rate` or `gradebook people ratings import`"
        )
    add_sheet_scores(rows, rubric, unmet)
    match shape:
        case "potato":
            return list(_potato_rows(rows, rubric))
        case "label-studio":
            return list(_label_studio_tasks(rows))
        case _:
            steps_by_rating = {tuple(row[name] for name in _WHOSE): row["steps"] for row in steps}
            made_of_claims = {tuple(row[name] for name in _WHOSE) for row in claims}
            plain = [row for row in rows if tuple(row[name] for name in _WHOSE) not in made_of_claims]
            rating_rows = [_row(row, steps_by_rating.get(tuple(row[name] for name in _WHOSE))) for row in plain]
            return [*rating_rows, *map(_claims_row, claims)]


def add_sheet_scores(rows: list[Row], rubric: Rubric | None, unmet: Sequence[Row]) -> None:
    """Add the score of a rater's sheet by the rubric: `sheet_score`, 0..1, and `sheet_rating`, on the raters' scale.

    Both are null without a rubric, and where a criterion with a weight has no rating. unmet: output_id and criterion_id
    of criteria that do not apply.
    """
    left_out: dict[str, set[str]] = {}
    for row in unmet:
        left_out.setdefault(row["output_id"], set()).add(row["criterion_id"])
    rule = None if rubric is None else ScoreRule(rubric)
    scale = None if rubric is None else rating_scale(rubric)
    for _, group in groupby(sorted(rows, key=_sheet_of), key=_sheet_of):
        sheet = list(group)
        own_criteria = read_case_criteria_text(sheet[0]["criteria"]) if sheet[0]["criteria"] else ()
        scores = {row["criterion_id"]: row["score"] for row in sheet}
        not_met = left_out.get(sheet[0]["output_id"], ())
        score = None if rule is None else rule.score(scores, own_criteria, not_met).score
        rating = None if score is None or scale is None or own_criteria else on_scale(score, scale)
        for row in sheet:
            row |= {"sheet_score": score, "sheet_rating": rating}


def _sheet_of(row: Row) -> tuple[str, str]:
    return row["output_id"], row["rater"]


def _row(row: Row, steps: list[Row] | None) -> dict[str, Any]:
    """Row of a rating, or of the marks of steps that make the rating."""
    if steps is None:
        return _flat(row)
    marks = [drop_none(mark) for mark in steps]
    for mark in marks:
        if "settled" in mark:  # a lead's decision, which is no rating: an import skips it
            mark["settled"] = {"label": None, **drop_none(mark["settled"])}
    rating = {"criterion_id": row["criterion_id"], "rater": row["rater"], "rated_at": _moment(row)}
    return _slot(row) | rating | {"steps": marks}


def _claims_row(row: Row) -> dict[str, Any]:
    """A rater's verdicts on the claims of an output, in place of the rating that they make."""
    marks = [drop_none(mark) for mark in row["claims"]]
    rating = {"criterion_id": row["criterion_id"], "rater": row["rater"], "rated_at": _moment(row)}
    return _slot(row) | rating | {"claims": marks}


def _flat(row: Row) -> dict[str, Any]:
    """Row of a rating, with its level or, without one, its score: an import refuses a row with both.

    A note without a rating has `n/a` as its level.
    """
    cells = {name: value for name, value in row.items() if name not in _NO_COLUMNS}
    if row["score"] is None:
        cells["level_id"] = "n/a"
    return cells | {"score": None if row["level_id"] is not None else row["score"], "rated_at": _moment(row)}


def _potato_rows(rows: Sequence[Row], rubric: Rubric | None) -> Iterator[dict[str, Any]]:
    names = _scheme_names(rubric)
    for _, group in groupby(rows, key=lambda row: (row["output_id"], row["rater"], row["rated_at"])):
        sheet = list(group)
        by_name = {names.get(row["criterion_id"], row["criterion_id"]): row for row in sheet}
        overall = by_name.pop(OVERALL, None)
        notes = {name: row["notes"] for name, row in by_name.items() if row["notes"]}
        shared = overall["notes"] if overall else None
        if overall is None and len(notes) == len(by_name) and len(set(notes.values())) == 1:
            shared, notes = next(iter(notes.values())), {}
        score, rating = sheet[0]["sheet_score"], sheet[0]["sheet_rating"]
        yield {
            "trace_id": sheet[0]["case_id"],
            **_slot(sheet[0]),
            "annotator": sheet[0]["rater"],
            "timestamp": _moment(sheet[0]),
            "rubric": {
                "criteria_ratings": {name: _value(row) for name, row in by_name.items() if row["score"] is not None},
                **({} if overall is None or overall["score"] is None else {OVERALL: _value(overall)}),
                **drop_none({"notes": shared, "criteria_notes": notes or None}),
                "weighted_score": score if rating is None else rating,
            },
        }


def _scheme_names(rubric: Rubric | None) -> dict[str, str]:
    """Names that the schemes of Potato gave their criteria, by id; without those of several criteria."""
    names = (
        {criterion.id: imported_metadata(criterion.metadata, "potato").get("name") for criterion in rubric.criteria}
        if rubric
        else {}
    )
    counts = Counter([*names.values(), *names, OVERALL])
    return {criterion_id: name for criterion_id, name in names.items() if isinstance(name, str) and counts[name] == 1}


def _label_studio_tasks(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for _, group in groupby(rows, key=lambda row: row["output_id"]):
        marks = list(group)
        annotations = []
        for _, sheet in groupby(marks, key=lambda row: (row["rater"], row["rated_at"])):
            first, *others = sheet
            results = [result for row in (first, *others) for result in _results(row)]
            scores = {name: first[name] for name in ("sheet_score", "sheet_rating")}
            head = {"completed_by": first["rater"], "updated_at": _moment(first)}
            annotations.append({**head, **scores, "result": results})
        yield {"data": _slot(marks[0]) | {name: marks[0][name] for name in _TEXTS}, "annotations": annotations}


def _results(row: Row) -> Iterator[dict[str, Any]]:
    name = row["criterion_id"]
    if row["score"] is None:
        pass
    elif row["level_id"] is None:
        yield {"from_name": name, "to_name": "output", "type": "number", "value": {"number": row["score"]}}
    else:
        yield {"from_name": name, "to_name": "output", "type": "choices", "value": {"choices": [row["level_id"]]}}
    if row["notes"]:
        note = {"from_name": name + NOTES_ENDINGS[0], "to_name": "output", "type": "textarea"}
        yield note | {"value": {"text": [row["notes"]]}}


def _slot(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in _OUTPUT if row[name] is not None}


def _value(row: Row) -> str | float:
    """The level, a number where it is one; else the score."""
    level_id: str | None = row["level_id"]
    if level_id is None:
        return float(row["score"])
    return int(level_id) if level_id.isascii() and level_id.isdigit() else level_id


def _moment(row: Row) -> str | None:
    rated_at: datetime | None = row["rated_at"]
    return None if rated_at is None else rated_at.isoformat()
