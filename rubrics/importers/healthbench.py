"""HealthBench: conversations with criteria of physicians, positive points for wanted content and negative for
unwanted.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from gradebook.rubrics.importers.case_export import Case, export_cases, weight_of
from gradebook.rubrics.importers.case_rows import (
    Answered,
    CaseId,
    CaseShape,
    Prompt,
    Words,
    criterion_row,
    import_cases,
)
from gradebook.rubrics.importers.foreign_file import OpenMapping
from gradebook.rubrics.importers.interfaces import Exported, Format, Imported
from gradebook.rubrics.importers.json_lines import json_lines
from gradebook.rubrics.importers.metadata import Kept, filled, given, kept_as, kept_of, plain_number
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import CaseCriterion

_AXIS = "axis:"
_LONGEST_CATEGORY = 64
LEVELS = (
    {"id": "not_met", "score": 0.0, "description": "What the criterion describes is not in the response."},
    {"id": "met", "score": 1.0, "description": "What the criterion describes is in the response."},
)


class _Criterion(OpenMapping):
    criterion: Words
    points: Annotated[float, Field(ge=-10, le=10)]
    tags: list[str] | None = None


class _Example(Answered, CaseShape):
    """A conversation with its criteria; the second names are those of HealthBench Professional."""

    prompt: Annotated[Prompt, Field(validation_alias=AliasChoices("prompt", "conversation"))]
    prompt_id: Annotated[CaseId | None, Field(validation_alias=AliasChoices("prompt_id", "id"))] = None
    rubrics: Annotated[list[_Criterion], Field(min_length=1, validation_alias=AliasChoices("rubrics", "rubric_items"))]
    example_tags: list[str] | None = None

    @property
    def identity(self) -> tuple[str | None, Any]:
        return self.prompt_id, [self.prompt, [each.criterion for each in self.rubrics]]

    def columns(self, kept: Kept) -> Row:
        left = kept.note_all("", self.left_with("example_tags", *self.unanswered))
        criteria = [_criterion(f"c{number}", each, kept) for number, each in enumerate(self.rubrics, start=1)]
        return {**self.answer_columns, "prompt": self.prompt, "criteria": criteria, **kept_as("healthbench", left)}


def _criterion(criterion_id: str, each: _Criterion, kept: Kept) -> Row:
    left = kept.note_all("rubrics[].", each.left_with("tags"))
    return criterion_row(
        criterion_id,
        each.criterion,
        "healthbench",
        left,
        category=_category(each.tags or []),
        weight=plain_number(each.points),
        levels=[dict(level) for level in LEVELS],
    )


def _category(tags: list[str]) -> str | None:
    axes = (tag.removeprefix(_AXIS).strip() for tag in tags if tag.startswith(_AXIS))
    return next((axis for axis in axes if 0 < len(axis) <= _LONGEST_CATEGORY), None)


def read_healthbench(text: str, path: str) -> Imported:
    """Import cases with one criterion per rubric entry, `c1` ..., weighted by its points. Raises `RubricError`.

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
    return {**line, **filled(case.kept("healthbench"), (*line, *answer)), **given(answer)}


def _entry(criterion: CaseCriterion) -> Row:
    kept = kept_of(criterion.metadata, "healthbench")
    axis = [f"{_AXIS}{criterion.category}"] if criterion.category else []
    entry = {
        "criterion": criterion.description,
        "points": weight_of(criterion),
        "tags": kept.get("tags", axis),
    }
    return {**entry, **filled(kept, entry)}


SUMMARY = "conversations, each with criteria of its own that give or take points"
FORMAT = Format("healthbench", SUMMARY, ".jsonl", "cases", read_healthbench, write_healthbench)
