"""MultiChallenge: conversations of several turns, each with one yes/no question about the next answer.

Shape: data/benchmark_questions.jsonl of ekwinox117/multi-challenge.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gradebook.rubrics.importers.case_rows import (
    CaseId,
    CaseShape,
    NonBlank,
    Prompt,
    answer_columns,
    criterion_row,
    import_cases,
    logged_prompt,
)
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.model.json_values import Row

NAME = "multichallenge"


def _upper(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


def _decoded(value: Any) -> Any:
    """Conversation of a table's cell, which is JSON text."""
    return logged_prompt(value) if isinstance(value, str) else value


class _Question(CaseShape):
    question_id: Annotated[CaseId, Field(validation_alias="QUESTION_ID")]
    axis: Annotated[str | None, Field(validation_alias="AXIS")] = None
    conversation: Annotated[Prompt, BeforeValidator(_decoded), Field(validation_alias="CONVERSATION")]
    target: Annotated[NonBlank, Field(validation_alias="TARGET_QUESTION")]
    passes: Annotated[Literal["YES", "NO"], BeforeValidator(_upper), Field(validation_alias="PASS_CRITERIA")]
    response: Annotated[str | None, Field(validation_alias="RESPONSE")] = None

    @property
    def identity(self) -> tuple[str | None, Any]:
        return self.question_id, [self.conversation, self.target]

    def columns(self, stored_fields: FieldCounts) -> Row:
        failing, passing = ("yes", "no") if self.passes == "NO" else ("no", "yes")
        levels = [
            {"id": answer, "score": score, "description": f"The answer to the question is {answer}."}
            for answer, score in ((failing, 0.0), (passing, 1.0))
        ]
        category = self.axis.strip()[:64] if self.axis and self.axis.strip() else None
        criterion = criterion_row("target", self.target, NAME, {}, category=category, threshold=1, levels=levels)
        extra = stored_fields.note_all("", self.unknown_keys)
        return {
            **answer_columns(None, self.response),
            "prompt": self.conversation,
            "criteria": [criterion],
            **as_metadata(NAME, extra),
        }


def read_multichallenge(text: str, path: str) -> Imported:
    """Import conversations as cases with the criterion `target`. Raises `RubricError` with every fault."""
    return import_cases(text, path, _Question)


SUMMARY = "conversations of MultiChallenge, each with a yes/no question about the next answer"
FORMAT = Format(NAME, SUMMARY, ".jsonl", "cases", read_multichallenge)
