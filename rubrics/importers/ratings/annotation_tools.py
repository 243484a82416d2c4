"""Ratings in the formats of annotation tools: Label Studio, Potato, Scale.

Label Studio's JSON export: tasks with annotations, each a list of results; `from_name` is the criterion.
The importer reads choices (one), rating, number and textarea. The task's `data` names the output; the rater is
`completed_by`. Cancelled annotations, predictions and other results are ignored.

Potato's annotations: {"scheme": {"criterion": "4"}}, with numbers as text.
The schemes are next to the ids of the row, or within `label_annotations`, `annotations` or `labels`, which Potato's own
exporter writes. A Likert scheme is a criterion with its label: {"tone": {"4": "4"}}. The saved state of a user has
a sheet of each output. `notes` next to the ids are a text, or a mapping by criterion. Lines of `rubric_eval` with
`criteria_ratings`, and of `trajectory_eval`, are read too.

Annotations of Scale's contributors: a task, its responses, a rating of each by criterion, and the selected one.
A task is parsed by the importer of its rows and criteria, so a rating has the same case as that import.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from gradebook.rubrics.importers.ratings.sheets import (
    LeftOut,
    Mark,
    Misfit,
    Naming,
    Sheet,
    Slot,
    cell_of,
    moment,
    name_text,
    notes_text,
    read_moment,
    read_rater,
    read_slot,
    repeated_words,
    shown_value,
)
from gradebook.rubrics.importers.ratings.tables import NOTES_ENDINGS, is_rated_trace, read_json_row
from gradebook.rubrics.importers.ratings.trajectory import is_trajectory
from gradebook.rubrics.importers.scale import LIKERT, NO_CRITERION, read_scale
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.json_values import Row

TYPES = ("choices", "rating", "number", "textarea")


def is_task(row: Row) -> bool:
    """Whether a row is a task of an export."""
    annotations = row.get("annotations")
    return isinstance(row.get("data"), dict) and isinstance(annotations, list)


def read_task(row: Row, naming: Naming, left_out: LeftOut) -> Sequence[Sheet]:
    """One sheet per annotation. Raises `Misfit` with the first fault of the task."""
    if not is_task(row):
        raise Misfit("found a task without data and annotations, expected both")
    slot = read_slot(row["data"], naming)
    return [
        Sheet(slot, *_rater_and_time(annotation, naming), *_notes_and_marks(annotation, naming, left_out))
        for annotation in _annotations(row, left_out)
    ]


def _annotations(row: Row, left_out: LeftOut) -> Iterator[Row]:
    for index, annotation in enumerate(row["annotations"]):
        if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
            raise Misfit(
                f"annotations[{index}]: found {shown_value(annotation)}, expected a mapping with a list `result`"
            )
        if annotation.get("was_cancelled"):
            left_out.note("a cancelled annotation")
        else:
            yield annotation


def _rater_and_time(annotation: Row, naming: Naming) -> tuple[str, Any]:
    who = annotation.get("completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    rater = name_text("completed_by", who) or naming.rater
    if rater is None:
        raise Misfit("completed_by: found nothing, expected a rater; --rater NAME sets it for all")
    return rater, moment(annotation.get("updated_at") or annotation.get("created_at"))


def _notes_and_marks(annotation: Row, naming: Naming, left_out: LeftOut) -> tuple[str | None, tuple[Mark, ...]]:
    values: dict[str, Any] = {}
    notes: dict[str, str] = {}
    for index, region in enumerate(annotation["result"]):
        if not isinstance(region, dict):
            raise Misfit(f"result[{index}]: found {shown_value(region)}, expected a mapping")
        name, kind = name_text("from_name", region.get("from_name")), region.get("type")
        if name is None or kind not in TYPES:
            left_out.note(f"results of the type {shown_value(kind)}")
        elif naming.is_criterion(name):
            if name in values:
                raise Misfit(repeated_words(name, "from_name"))
            values[name] = _value(name, kind, region.get("value"))
        elif kind == "textarea":
            text = notes_text(_textarea(name, region.get("value")))
            notes[name] = "\n".join(part for part in (notes.get(name), text) if part)
        else:
            left_out.note(f"the {kind} {name}")
    criterion_notes = {name: notes.pop(name + end) for name in values for end in NOTES_ENDINGS if name + end in notes}
    marks = tuple(Mark(name, value, notes=criterion_notes.get(name) or None) for name, value in values.items())
    return "\n".join(text for text in notes.values() if text) or None, marks


def _value(name: str, kind: str, value: Any) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"{name}: found {shown_value(value)}, expected a mapping with {kind}")
    raw_value = _textarea(name, value) if kind == "textarea" else value.get(kind)
    if isinstance(raw_value, list):
        if len(raw_value) > 1:
            raise Misfit(f"{name}: found {len(raw_value)} {kind}, expected one")
        return raw_value[0] if raw_value else None
    return raw_value


def _textarea(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"{name}: found {shown_value(value)}, expected a mapping with text")
    return value.get("text") or None


HOLDERS = ("label_annotations", "annotations", "labels")
STATE = "instance_id_to_label_to_value"  # key of a user's state: output -> pairs (label, value)
CHOSEN = (True, "true", "True", "on")  # values that mark a label as chosen, besides its own text
NOTES = "notes"
NO_SCHEMES = frozenset(
    {"rubric", "data", "metadata", "meta", "span_annotations", "behavioral_data", "link_annotations", NOTES}
)


def read_potato_row(row: Row, naming: Naming, left_out: LeftOut) -> Sequence[Sheet]:
    """Sheet of a line, or all sheets of a user's state. Raises `Misfit`."""
    if isinstance(row.get(STATE), dict):
        rows = _rows_of_state(row)
        return [sheet for state_row in rows for sheet in read_potato_row(state_row, naming, left_out)]
    row = _with_steps(row)
    if is_rated_trace(row) or is_trajectory(row):
        for scheme, _ in _schemes(row):
            left_out.note(f"the scheme {scheme} beside a rubric or a trajectory")
        return read_json_row(row, naming, left_out)
    marks: list[Mark] = []
    row_notes = cell_of(NOTES, row, naming)
    criterion_notes, notes = (row_notes, []) if isinstance(row_notes, dict) else ({}, [notes_text(row_notes)])
    for scheme, values in _schemes(row):
        if (chosen_label := _chosen_label(scheme, values, naming)) is not None:
            marks.append(Mark(scheme, chosen_label, notes=notes_text(criterion_notes.get(scheme))))
            continue
        for name, value in values.items():
            if name == NOTES and not naming.is_criterion(NOTES):
                notes.append(notes_text(value or None))
            else:
                marks.append(_mark(scheme, name, value, notes_text(criterion_notes.get(name))))
    if not marks:
        raise Misfit('found no scheme, expected one such as {"scheme": {"criterion": "4"}}')
    if unrated := sorted(criterion_notes.keys() - {mark.criterion for mark in marks}):
        raise Misfit(f"{NOTES}: found {shown_value(', '.join(unrated))}, expected criteria that the row rates")
    note_text = "\n".join(text for text in notes if text) or None
    return [Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), note_text, tuple(marks))]


def _rows_of_state(row: Row) -> Iterator[Row]:
    """Rows, one per output, of the state that Potato saves for a user. Raises `Misfit`."""
    shared_columns = {name: value for name, value in row.items() if name not in (STATE, "instance_id_ordering")}
    for instance, pairs in row[STATE].items():
        schemes: dict[str, dict[str, Any]] = {}
        for pair in pairs if isinstance(pairs, list) else [pairs]:
            match pair:
                case [{"schema": str(scheme), "name": str(name)}, value]:
                    schemes.setdefault(scheme, {})[name] = value
                case _:
                    expected = 'pairs such as [{"schema": "quality", "name": "tone"}, "4"]'
                    raise Misfit(f"{STATE}.{instance}: found {shown_value(pair)}, expected {expected}")
        if schemes:
            yield shared_columns | {"instance_id": instance, "labels": schemes}


def _chosen_label(scheme: str, values: Row, naming: Naming) -> Any:
    """Chosen label of a Likert scheme with a criterion's name; None for other schemes."""
    if len(values) != 1 or not naming.is_criterion(scheme):
        return None
    ((label, value),) = values.items()
    is_chosen = str(value) == label or value in CHOSEN
    return label if is_chosen and not naming.is_criterion(label) else None


def _with_steps(row: Row) -> Row:
    """Row with its steps, which a form of `trajectory_eval` stores as JSON text in its scheme."""
    for scheme, values in _schemes(row):
        for name, value in values.items():
            if isinstance(value, str) and value.lstrip().startswith("{") and '"steps"' in value:
                with suppress(ValueError, RecursionError):
                    steps = json.loads(value)["steps"]
                    other_values = {key: value for key, value in values.items() if key != name}
                    return _with_scheme(row, scheme, other_values) | {"steps": steps}
    return row


def _with_scheme(row: Row, scheme: str, values: Row) -> Row:
    """Row with these values of a scheme; without the scheme if `values` is empty."""
    holder = _holder(row)
    schemes = row if holder is None else row[holder]
    new_schemes = {key: value for key, value in schemes.items() if key != scheme} | ({scheme: values} if values else {})
    return new_schemes if holder is None else row | {holder: new_schemes}


def has_schemes(row: Row) -> bool:
    """Whether a row looks like Potato's: a scheme has criteria with texts or numbers as values."""
    return isinstance(row.get(STATE), dict) or any(
        values and not any(isinstance(value, dict | list) for value in values.values()) for _, values in _schemes(row)
    )


def _schemes(row: Row) -> Iterator[tuple[str, Row]]:
    holder = _holder(row)
    for scheme, values in (row if holder is None else row[holder]).items():
        if isinstance(values, dict) and (holder is not None or scheme not in NO_SCHEMES):
            yield scheme, values


def _holder(row: Row) -> str | None:
    """Key of a row that contains its schemes; None if they are next to its ids."""
    holders = (name for name in HOLDERS if isinstance(row.get(name), dict))
    return next(
        (name for name in holders if name != "labels" or any(isinstance(value, dict) for value in row[name].values())),
        None,
    )


def _mark(scheme: str, name: str, value: Any, notes: str | None) -> Mark:
    if isinstance(value, dict | list):
        raise Misfit(f"{scheme}.{name}: found {shown_value(value)}, expected a rating")
    return Mark(name, value, notes=notes, scheme=scheme)


_OUTPUT = ("case_id", "model", "sample_index")


def read_scale_task(row: Row, _naming: Naming, left_out: LeftOut) -> Sequence[Sheet]:
    """One sheet per response and rater, and one per selected response. Raises `Misfit` with the first faults."""
    try:
        task = read_scale(json.dumps(row), "task")
    except RubricError as error:
        raise Misfit("; ".join(fault.message for fault in error.faults[:3])) from None
    sheets: dict[tuple[object, ...], list[Row]] = {}
    for sentence in task.kept:
        if sentence.startswith(NO_CRITERION):
            left_out.note(sentence)
    for rating in task.ratings:
        sheets.setdefault((*(rating.get(name) for name in _OUTPUT), rating["rater"]), []).append(rating)
    return [*(_sheet(marks) for marks in sheets.values()), *map(_choice, task.choices)]


def _sheet(ratings: Sequence[Row]) -> Sheet:
    first_rating = ratings[0]
    marks = tuple(Mark(rating["criterion_id"], rating["level_id"], "level") for rating in ratings)
    return Sheet(_slot(first_rating), first_rating["rater"], moment(first_rating.get("rated_at")), None, marks)


def _choice(choice: Row) -> Sheet:
    other_slots = tuple(map(_slot, choice["others"]))
    rated_at, notes, likert = moment(choice.get("rated_at")), choice.get("notes"), choice.get(LIKERT)
    return Sheet(_slot(choice), choice["rater"], rated_at, notes, (), other_slots, likert)


def _slot(row: Row) -> Slot:
    return Slot(**{name: row.get(name) for name in _OUTPUT})
