"""Label Studio's JSON export: tasks with annotations, each a list of results; `from_name` is the criterion.

The importer reads choices (one), rating, number and textarea. The task's `data` names the output; the rater is
`completed_by`. Cancelled annotations, predictions and other results are ignored.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gradebook.rubrics.importers.ratings.columns import (
    moment,
    name_text,
    notes_text,
    read_slot,
    repeated_words,
    words_of,
)
from gradebook.rubrics.importers.ratings.shapes import LeftOut, Mark, Misfit, Naming, Sheet
from gradebook.rubrics.importers.ratings.tables import NOTES_ENDINGS
from gradebook.rubrics.model.rows import Row

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
        Sheet(slot, *_who_and_when(annotation, naming), *_notes_and_marks(annotation, naming, left_out))
        for annotation in _annotations(row, left_out)
    ]


def _annotations(row: Row, left_out: LeftOut) -> Iterator[Row]:
    for index, annotation in enumerate(row["annotations"]):
        if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
            raise Misfit(f"annotations[{index}]: found {words_of(annotation)}, expected a mapping with a list `result`")
        if annotation.get("was_cancelled"):
            left_out.note("a cancelled annotation")
        else:
            yield annotation


def _who_and_when(annotation: Row, naming: Naming) -> tuple[str, Any]:
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
    for index, each in enumerate(annotation["result"]):
        if not isinstance(each, dict):
            raise Misfit(f"result[{index}]: found {words_of(each)}, expected a mapping")
        name, kind = name_text("from_name", each.get("from_name")), each.get("type")
        if name is None or kind not in TYPES:
            left_out.note(f"results of the type {words_of(kind)}")
        elif naming.is_criterion(name):
            if name in values:
                raise Misfit(repeated_words(name, "from_name"))
            values[name] = _value(name, kind, each.get("value"))
        elif kind == "textarea":
            text = notes_text(_textarea(name, each.get("value")))
            notes[name] = "\n".join(part for part in (notes.get(name), text) if part)
        else:
            left_out.note(f"the {kind} {name}")
    beside = {name: notes.pop(name + end) for name in values for end in NOTES_ENDINGS if name + end in notes}
    marks = tuple(Mark(name, value, notes=beside.get(name) or None) for name, value in values.items())
    return "\n".join(text for text in notes.values() if text) or None, marks


def _value(name: str, kind: str, value: Any) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"{name}: found {words_of(value)}, expected a mapping with {kind}")
    found = _textarea(name, value) if kind == "textarea" else value.get(kind)
    if isinstance(found, list):
        if len(found) > 1:
            raise Misfit(f"{name}: found {len(found)} {kind}, expected one")
        return found[0] if found else None
    return found


def _textarea(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"{name}: found {words_of(value)}, expected a mapping with text")
    return value.get("text") or None
