"""AdvancedIF: conversations whose next answer is judged by yes/no questions of experts.

Shape: the data set facebook/AdvancedIF, whose columns hold JSON as text; CSV has to be turned into JSON Lines first.
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
    """Value of a text that is JSON; other texts, and other values, as they are."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _assistant_text(value: Any) -> Any:
    """Text of an answer that is a list with the assistant's message."""
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

    def columns(self, stored: FieldCounts) -> Row:
        category = self.benchmark_name.strip()[:64] if self.benchmark_name and self.benchmark_name.strip() else None
        criteria = [
            criterion_row(f"c{number}", question, NAME, {}, category=category, levels=met_levels())
            for number, question in enumerate(self.about.rubrics, start=1)
        ]
        left = stored.note_all("", {**self.left, **self.about.left})
        return {
            **answer_columns(self.model, self.response),
            "prompt": self.conversation,
            "criteria": criteria,
            **as_metadata(NAME, left),
        }


def read_advancedif(text: str, path: str) -> Imported:
    """Import conversations as cases with a criterion for each question, `c1` .... Raises `RubricError`."""
    return import_cases(text, path, _Conversation)


SUMMARY = "conversations of AdvancedIF, each with yes/no questions about the next answer"
LEFT = "other columns, which are metadata; CSV has to become JSON Lines first"
FORMAT = Format(NAME, SUMMARY, ".jsonl", "cases", read_advancedif, left=LEFT)
