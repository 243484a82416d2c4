"""Checklists: yes/no questions for each case."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

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
)
from gradebook.rubrics.importers.foreign_file import OpenMapping, json_lines
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, imported_metadata, plain_number
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT, CaseCriterion

LEVELS = ({"id": "no", "score": 0.0}, {"id": "yes", "score": 1.0})


class _Question(OpenMapping):
    id: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.:-]{0,63}$")] | None = None
    question: NonBlank
    weight: Annotated[float, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT)] | None = None


def _bare_question(value: Any) -> Any:
    return {"question": value} if isinstance(value, str) else value


_Questions = Annotated[list[Annotated[_Question, BeforeValidator(_bare_question)]], Field(min_length=1)]


class _Checklist(Answered, CaseShape):
    case_id: Annotated[CaseId | None, Field(validation_alias=AliasChoices("case_id", "id"))] = None
    prompt: Annotated[Prompt, Field(validation_alias=AliasChoices("prompt", "instruction"))]
    reference: str | None = None
    questions: Annotated[_Questions, Field(validation_alias=AliasChoices("checklist", "questions"))]

    @model_validator(mode="after")
    def _each_id_once(self) -> Self:
        twice = [name for name, count in Counter(self.ids).items() if count > 1]
        if twice:
            raise ModelFault("invalid", f"found the id {twice[0]!r} again, expected each id once", "questions")
        return self

    @property
    def ids(self) -> list[str]:
        return [question.id or f"q{number}" for number, question in enumerate(self.questions, start=1)]

    @property
    def identity(self) -> tuple[str | None, Any]:
        return self.case_id, [self.prompt, [question.question for question in self.questions]]

    def columns(self, stored_fields: FieldCounts) -> Row:
        extra = stored_fields.note_all("", self.unknown_keys_with(*self.unanswered))
        columns = {**self.answer_columns, "prompt": self.prompt, "reference": self.reference}
        criteria = [
            _criterion(name, question, stored_fields) for name, question in zip(self.ids, self.questions, strict=True)
        ]
        return {**drop_none(columns), "criteria": criteria, **as_metadata("checklist", extra)}


def _criterion(criterion_id: str, question: _Question, stored_fields: FieldCounts) -> Row:
    extra = stored_fields.note_all("questions[].", question.unknown_keys)
    weight = None if question.weight is None else plain_number(question.weight)
    levels = [dict(level) for level in LEVELS]
    return criterion_row(criterion_id, question.question, "checklist", extra, weight=weight, levels=levels)


def read_checklist(text: str, path: str) -> Imported:
    """Import cases with one criterion per question, `q1` ..., judged as `no` 0 or `yes` 1. Raises `RubricError`."""
    return import_cases(text, path, _Checklist)


def write_checklist(rows: Sequence[Row]) -> Exported:
    """Write JSON Lines with one row per output, or per case without answers. Raises `RubricError`."""
    return export_cases(rows, lambda cases: json_lines(_line(case) for case in cases), read_checklist)


def _line(case: Case) -> Row:
    return {
        **case.kept("checklist"),
        "case_id": case.case_id,
        "prompt": case.prompt,
        "checklist": [_entry(criterion) for criterion in case.criteria],
        **drop_none({"reference": case.reference, "model": case.model, "response": case.output}),
    }


def _entry(criterion: CaseCriterion) -> Row:
    weight = {} if criterion.weight is None else {"weight": plain_number(criterion.weight)}
    imported = imported_metadata(criterion.metadata, "checklist")
    return {**imported, "id": criterion.id, "question": criterion.description, **weight}


SUMMARY = "yes/no questions for each case, optionally with answers"
FORMAT = Format("checklist", SUMMARY, ".jsonl", "cases", read_checklist, write_checklist)
