"""AdvancedIF: conversations whose next answer is judged by yes/no questions of experts.

Shape: the data set facebook/AdvancedIF, whose columns hold JSON as text; CSV must first be converted to JSON Lines.
"""

import json
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gradebook.rubrics.importers.case_rows import (
    CaseId,
    CaseShape,
    NonBlank,
    Prompt,
    answer_columns,
    criterion_row,
    import_cases,
    met_levels,
)
from gradebook.rubrics.importers.foreign_file import OpenMapping
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.model.json_values import Row

NAME = "advancedif"


def _parse_if_json(value: Any) -> Any:
    """Parsed value of a JSON text; anything else unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _assistant_text(value: Any) -> Any:
    """Text of an answer given as a list with the assistant's message; anything else unchanged."""
    messages = _parse_if_json(value)
    last = messages[-1] if isinstance(messages, list) and messages else None
    return last["content"] if isinstance(last, dict) and isinstance(last.get("content"), str) else value


class _Metadata(OpenMapping):
    rubrics: Annotated[list[NonBlank], BeforeValidator(_parse_if_json), Field(min_length=1)]


class _Conversation(CaseShape):
    conversation: Annotated[Prompt, BeforeValidator(_parse_if_json), Field(validation_alias="conversation_history")]
    about: Annotated[_Metadata, BeforeValidator(_parse_if_json), Field(validation_alias="prompt_metadata")]
    benchmark_name: str | None = None
    response: Annotated[str | None, BeforeValidator(_assistant_text)] = None
    model: NonBlank | None = None
    case_id: CaseId | None = None

    @property
    def identity(self) -> tuple[str | None, Any]:
        return self.case_id, [self.conversation, self.about.rubrics]

    def columns(self, stored_fields: FieldCounts) -> Row:
        category = self.benchmark_name.strip()[:64] if self.benchmark_name and self.benchmark_name.strip() else None
        criteria = [
            criterion_row(f"c{number}", question, NAME, {}, category=category, levels=met_levels())
            for number, question in enumerate(self.about.rubrics, start=1)
        ]
        extra = stored_fields.note_all("", {**self.unknown_keys, **self.about.unknown_keys})
        return {
            **answer_columns(self.model, self.response),
            "prompt": self.conversation,
            "criteria": criteria,
            **as_metadata(NAME, extra),
        }


def read_advancedif(text: str, path: str) -> Imported:
    """Import conversations as cases with a criterion for each question: `c1`, `c2`, .... Raises `RubricError`."""
    return import_cases(text, path, _Conversation)


SUMMARY = "conversations of AdvancedIF, each with yes/no questions about the next answer"
FORMAT = Format(NAME, SUMMARY, ".jsonl", "cases", read_advancedif)
