"""Content without a place in the other format: stored under `metadata` by an import, listed by an export."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel

from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.rubric import Rubric

FIRST_VERSION = "1.0.0"  # version of a rubric whose format has none


class FieldCounts:
    """Counter of fields without a place, for the summary: `scoring_method.decode_prompt (3)`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, *names: str) -> None:
        """Count fields by name."""
        self._counts.update(names)

    def note_all(self, prefix: str, extra: Row) -> Row:
        """Count the keys of a mapping, and return it."""
        self.note(*(f"{prefix}{key}" for key in extra))
        return extra

    def words(self) -> tuple[str, ...]:
        """One phrase per field, in order of appearance, with its count if above one."""
        return tuple(name if count == 1 else f"{name} ({count})" for name, count in self._counts.items())


def drop_empty(mapping: Row, omitted: Collection[str] = ()) -> Row:
    """Copy of a mapping without the omitted keys and without empty values: None, "", [] and {}."""
    return {key: value for key, value in mapping.items() if key not in omitted and value not in (None, "", [], {})}


def mapping_or_empty(value: Any) -> Row:
    """The value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, dict) else {}


def as_metadata(format_name: str, content: Row) -> Row:
    """The key `metadata` with the stored data of a format; no key if there is none."""
    return {"metadata": {format_name: content}} if content else {}


def imported_metadata(metadata: Row, format_name: str) -> Row:
    """Data of a format stored by an import; empty if there is none, as metadata may have any content."""
    return mapping_or_empty(metadata.get(format_name))


def plain_number(value: float) -> float | int:
    """Number as an integer if it is whole, so that it is written without `.0`."""
    return int(value) if value == int(value) else value


def note_lost(
    rubric: Rubric,
    format_name: str,
    lost_fields: FieldCounts,
    rubric_keys: str,
    criterion_keys: str,
    category_keys: str | None = None,
) -> None:
    """Record content of a rubric without a place in the format.

    The keys are those that the format writes, separated by blanks, besides `id`, `metadata` and a criterion's
    description, method and weight. category_keys: None if the format has no groups, in which case categories are
    ignored.
    """
    _note_lost_fields(lost_fields, "", rubric, f"version criteria categories {rubric_keys}")
    if rubric.version != FIRST_VERSION and "version" not in rubric_keys.split():
        lost_fields.note("version")
    if rubric.categories and category_keys is None:
        lost_fields.note("categories (their weights are multiplied into those of the criteria)")
    for category in rubric.categories if category_keys is not None else ():
        _note_lost_fields(lost_fields, "categories.", category, category_keys or "")
    for criterion in rubric.criteria:
        _note_lost_fields(lost_fields, "criteria.", criterion, f"description method weight {criterion_keys}")
        if criterion.category is not None and not rubric.categories and category_keys is not None:
            lost_fields.note("criteria.category")
    every = [part.metadata for group in ((rubric,), rubric.categories, rubric.criteria) for part in group]
    lost_fields.note(*(f"metadata.{key}" for metadata in every for key in metadata if key != format_name))


def _note_lost_fields(lost_fields: FieldCounts, prefix: str, part: BaseModel, written: str) -> None:
    fields = {"id", "metadata", *written.split()}
    fields |= {"decide"} if getattr(part, "decide", None) == "interval" else set()  # every import sets it
    lost_fields.note(*(f"{prefix}{name}" for name in part.model_dump(exclude_defaults=True) if name not in fields))


def note_method(criterion_method: BaseModel, expected_type: str, lost_fields: FieldCounts) -> None:
    """Record a criterion whose method differs from the format's: by a judge, or by people."""
    settings = criterion_method.model_dump(exclude_defaults=True)
    if settings["type"] != expected_type:
        lost_fields.note(f"criteria.method {settings['type']}")
    else:
        lost_fields.note(*(f"criteria.method.{key}" for key in settings if key != "type"))
