"""HealthBench: conversations with criteria written by physicians: positive points for wanted content, negative points
for unwanted content.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from gradebook.rubrics.importers.case_rows import (
    Answered,
    Case,
    CaseId,
    CaseShape,
    NonBlank,
    Prompt,
    criterion_row,
    export_cases,
    import_cases,
    weight_of,
)
from gradebook.rubrics.importers.foreign_file import OpenMapping, json_lines
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty, imported_metadata, plain_number
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.model.rubric import CaseCriterion

_AXIS = "axis:"
_LONGEST_CATEGORY = 64
LEVELS = (
    {"id": "not_met", "score": 0.0, "description": "What the criterion describes is not in the response."},
    {"id": "met", "score": 1.0, "description": "What the criterion describes is in the response."},
)


class _Criterion(OpenMapping):
    criterion: NonBlank
    points: Annotated[float, Field(ge=-10, le=10)]
    tags: list[str] | None = None


class _Example(Answered, CaseShape):
    """Conversation with its criteria; the second names of fields are those of HealthBench Professional."""

    prompt: Annotated[Prompt, Field(validation_alias=AliasChoices("prompt", "conversation"))]
    prompt_id: Annotated[CaseId | None, Field(validation_alias=AliasChoices("prompt_id", "id"))] = None
    rubrics: Annotated[list[_Criterion], Field(min_length=1, validation_alias=AliasChoices("rubrics", "rubric_items"))]
    example_tags: list[str] | None = None

    @property
    def identity(self) -> tuple[str | None, Any]:
        return self.prompt_id, [self.prompt, [rubric.criterion for rubric in self.rubrics]]

    def columns(self, stored_fields: FieldCounts) -> Row:
        extra = stored_fields.note_all("", self.unknown_keys_with("example_tags", *self.unanswered))
        criteria = [
            _criterion(f"c{number}", rubric, stored_fields) for number, rubric in enumerate(self.rubrics, start=1)
        ]
        return {**self.answer_columns, "prompt": self.prompt, "criteria": criteria, **as_metadata("healthbench", extra)}


def _criterion(criterion_id: str, rubric_item: _Criterion, stored_fields: FieldCounts) -> Row:
    extra = stored_fields.note_all("rubrics[].", rubric_item.unknown_keys_with("tags"))
    return criterion_row(
        criterion_id,
        rubric_item.criterion,
        "healthbench",
        extra,
        category=_category(rubric_item.tags or []),
        weight=plain_number(rubric_item.points),
        levels=[dict(level) for level in LEVELS],
    )


def _category(tags: list[str]) -> str | None:
    axes = (tag.removeprefix(_AXIS).strip() for tag in tags if tag.startswith(_AXIS))
    return next((axis for axis in axes if 0 < len(axis) <= _LONGEST_CATEGORY), None)


def read_healthbench(text: str, path: str) -> Imported:
    """Import cases with one criterion per rubric entry (`c1`, `c2`, ...), weighted by its points. Raises `RubricError`.

    The category of a criterion is the text after `axis:` in its first such tag; its metadata has all its tags.
    """
    return import_cases(text, path, _Example)


def write_healthbench(rows: Sequence[Row]) -> Exported:
    """Write JSON Lines with one row per output, or per case without answers. Raises `RubricError`."""
    return export_cases(rows, lambda cases: json_lines(_line(case) for case in cases), read_healthbench)


def _line(case: Case) -> Row:
    line = {
        "prompt": case.prompt,
        "prompt_id": case.case_id,
        "rubrics": [_entry(criterion) for criterion in case.criteria],
        "example_tags": case.kept("healthbench").get("example_tags", []),
    }
    answer = {"model": case.model, "response": case.output}
    return {**line, **drop_empty(case.kept("healthbench"), (*line, *answer)), **drop_none(answer)}


def _entry(criterion: CaseCriterion) -> Row:
    imported = imported_metadata(criterion.metadata, "healthbench")
    axis = [f"{_AXIS}{criterion.category}"] if criterion.category else []
    entry = {
        "criterion": criterion.description,
        "points": weight_of(criterion),
        "tags": imported.get("tags", axis),
    }
    return {**entry, **drop_empty(imported, entry)}


SUMMARY = "conversations, each with criteria of its own that give or take points"
FORMAT = Format("healthbench", SUMMARY, ".jsonl", "cases", read_healthbench, write_healthbench)
