"""What has no place on the other side: kept under `metadata` by an import, named by an export."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel

from gradebook.rubrics.importers.interfaces import Row
from gradebook.rubrics.model.rubric import Rubric

FIRST_VERSION = "1.0.0"  # of a rubric whose format has no versions


class Kept:
    """Counts what had no place, for the summary: `scoring_method.decode_prompt (3)`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, *names: str) -> None:
        """Take note of fields by their names."""
        self._counts.update(names)

    def note_all(self, prefix: str, left: Row) -> Row:
        """Take note of the keys of a mapping, and give it back."""
        self.note(*(f"{prefix}{key}" for key in left))
        return left

    def words(self) -> tuple[str, ...]:
        """A phrase a field, in the order they were met; with its count where it was met more than once."""
        return tuple(name if count == 1 else f"{name} ({count})" for name, count in self._counts.items())


def given(mapping: Row) -> Row:
    """The keys whose value is not None."""
    return {key: value for key, value in mapping.items() if value is not None}


def filled(mapping: Row, known: Collection[str] = ()) -> Row:
    """The keys beside the known ones that say something; None, "", [] and {} say nothing."""
    return {key: value for key, value in mapping.items() if key not in known and value not in (None, "", [], {})}


def mapping_of(value: Any) -> Row:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def kept_as(format_name: str, kept: Row) -> Row:
    """The key `metadata` for what is kept of a format; no key where there is nothing."""
    return {"metadata": {format_name: kept}} if kept else {}


def kept_of(metadata: Row, format_name: str) -> Row:
    """What an import kept of a format; empty where there was none: metadata may hold anything."""
    return mapping_of(metadata.get(format_name))


def plain_number(value: float) -> float | int:
    """A whole number without its `.0`, as people write it."""
    return int(value) if value == int(value) else value


def note_lost(
    rubric: Rubric,
    format_name: str,
    lost: Kept,
    rubric_keys: str,
    criterion_keys: str,
    category_keys: str | None = None,
) -> None:
    """Take note of what a rubric says and the format has no place for.

    The keys are those that the format writes, in words, beside `id`, `metadata` and a criterion's description, method
    and weight. category_keys: None where it has no groups, so that categories are no matter of it.
    """
    _note_unwritten(lost, "", rubric, f"version criteria categories {rubric_keys}")
    if rubric.version != FIRST_VERSION and "version" not in rubric_keys.split():
        lost.note("version")
    if rubric.categories and category_keys is None:
        lost.note("categories (their weights are multiplied into those of the criteria)")
    for category in rubric.categories if category_keys is not None else ():
        _note_unwritten(lost, "categories.", category, category_keys or "")
    for criterion in rubric.criteria:
        _note_unwritten(lost, "criteria.", criterion, f"description method weight {criterion_keys}")
        if criterion.category is not None and not rubric.categories and category_keys is not None:
            lost.note("criteria.category")
    every = [part.metadata for parts in ((rubric,), rubric.categories, rubric.criteria) for part in parts]
    lost.note(*(f"metadata.{key}" for metadata in every for key in metadata if key != format_name))


def _note_unwritten(lost: Kept, prefix: str, part: BaseModel, written: str) -> None:
    known = {"id", "metadata", *written.split()}
    lost.note(*(f"{prefix}{name}" for name in part.model_dump(exclude_defaults=True) if name not in known))


def note_method(criterion_method: BaseModel, wanted: str, lost: Kept) -> None:
    """Take note of a criterion that is not scored as the format has it: by a judge, or by people."""
    said = criterion_method.model_dump(exclude_defaults=True)
    if said["type"] != wanted:
        lost.note(f"criteria.method {said['type']}")
    else:
        lost.note(*(f"criteria.method.{key}" for key in said if key != "type"))
