"""Potato's annotations: {"scheme": {"criterion": "4"}}, with numbers as text.

The schemes are next to the ids of the row, or within `label_annotations` or `annotations`. `notes` beside the ids are a
text, or a mapping by criterion. Lines of `rubric_eval` with `criteria_ratings`, and of `trajectory_eval`, are read too.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from gradebook.rubrics.importers.ratings.columns import (
    cell_of,
    notes_text,
    read_moment,
    read_rater,
    read_slot,
    words_of,
)
from gradebook.rubrics.importers.ratings.shapes import LeftOut, Mark, Misfit, Naming, Sheet
from gradebook.rubrics.importers.ratings.sheets import is_rated_trace, read_json_row
from gradebook.rubrics.importers.ratings.trajectory import is_trajectory
from gradebook.rubrics.model.rows import Row

HOLDERS = ("label_annotations", "annotations")
NOTES = "notes"
NO_SCHEMES = frozenset(
    {"rubric", "data", "metadata", "meta", "span_annotations", "behavioral_data", "link_annotations", NOTES}
)


def read_potato_row(row: Row, naming: Naming, left_out: LeftOut) -> Sequence[Sheet]:
    """Sheet of a line. Raises `Misfit`."""
    row = _with_steps(row)
    if is_rated_trace(row) or is_trajectory(row):
        for scheme, _ in _schemes(row):
            left_out.note(f"the scheme {scheme} beside a rubric or a trajectory")
        return read_json_row(row, naming, left_out)
    marks: list[Mark] = []
    given = cell_of(NOTES, row, naming)
    own, notes = (given, []) if isinstance(given, dict) else ({}, [notes_text(given)])
    for scheme, values in _schemes(row):
        for name, value in values.items():
            if name == NOTES and not naming.is_criterion(NOTES):
                notes.append(notes_text(value or None))
            else:
                marks.append(_mark(scheme, name, value, notes_text(own.get(name))))
    if not marks:
        raise Misfit('found no scheme, expected one such as {"scheme": {"criterion": "4"}}')
    if unrated := sorted(own.keys() - {mark.criterion for mark in marks}):
        raise Misfit(f"{NOTES}: found {words_of(', '.join(unrated))}, expected criteria that the row rates")
    words = "\n".join(text for text in notes if text) or None
    return [Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), words, tuple(marks))]


def _with_steps(row: Row) -> Row:
    """The row with the steps that a form of `trajectory_eval` keeps as a JSON text of its scheme."""
    for scheme, values in _schemes(row):
        for name, value in values.items():
            if isinstance(value, str) and value.lstrip().startswith("{") and '"steps"' in value:
                with suppress(ValueError, RecursionError):
                    steps = json.loads(value)["steps"]
                    others = {key: each for key, each in values.items() if key != name}
                    return _with_scheme(row, scheme, others) | {"steps": steps}
    return row


def _with_scheme(row: Row, scheme: str, values: Row) -> Row:
    """The row with these values of a scheme; without the scheme if there are none."""
    holder = _holder(row)
    around = row if holder is None else row[holder]
    changed = {key: each for key, each in around.items() if key != scheme} | ({scheme: values} if values else {})
    return changed if holder is None else row | {holder: changed}


def has_schemes(row: Row) -> bool:
    """Whether a row looks like Potato's: some scheme has criteria with a text or a number each."""
    return any(
        values and not any(isinstance(each, dict | list) for each in values.values()) for _, values in _schemes(row)
    )


def _schemes(row: Row) -> Iterator[tuple[str, Row]]:
    holder = _holder(row)
    for scheme, values in (row if holder is None else row[holder]).items():
        if isinstance(values, dict) and (holder is not None or scheme not in NO_SCHEMES):
            yield scheme, values


def _holder(row: Row) -> str | None:
    """Key under which a row has its schemes; None where they are beside its ids."""
    return next((name for name in HOLDERS if isinstance(row.get(name), dict)), None)


def _mark(scheme: str, name: str, value: Any, notes: str | None) -> Mark:
    if isinstance(value, dict | list):
        raise Misfit(f"{scheme}.{name}: found {words_of(value)}, expected a rating")
    return Mark(name, value, notes=notes, scheme=scheme)
