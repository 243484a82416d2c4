"""Annotations of Scale's contributors: a task, its responses, and a rating of each by criterion.

A task is parsed by the importer of its rows and criteria, so a rating has the same case as that import.
"""

import json
from collections.abc import Sequence

from gradebook.rubrics.importers.ratings.columns import moment
from gradebook.rubrics.importers.ratings.shapes import LeftOut, Mark, Misfit, Naming, Sheet, Slot
from gradebook.rubrics.importers.scale.importing import OF_NO_CRITERION, read_scale
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rows import Row

_OUTPUT = ("case_id", "model", "sample_index")


def read_scale_task(row: Row, _naming: Naming, left_out: LeftOut) -> Sequence[Sheet]:
    """One sheet per response and rater. Raises `Misfit` with the first fault of the task."""
    try:
        task = read_scale(json.dumps(row), "task")
    except RubricError as error:
        raise Misfit("; ".join(fault.message for fault in error.faults[:3])) from None
    sheets: dict[tuple[object, ...], list[Row]] = {}
    for words in task.kept:
        if words.startswith(OF_NO_CRITERION):
            left_out.note(words)
    for rating in task.ratings:
        sheets.setdefault((*(rating.get(name) for name in _OUTPUT), rating["rater"]), []).append(rating)
    return [_sheet(marks) for marks in sheets.values()]


def _sheet(ratings: Sequence[Row]) -> Sheet:
    first = ratings[0]
    slot = Slot(case_id=first["case_id"], model=first["model"], sample_index=first.get("sample_index"))
    marks = tuple(Mark(rating["criterion_id"], rating["level_id"], "level") for rating in ratings)
    return Sheet(slot, first["rater"], moment(first.get("rated_at")), None, marks)
