"""Shape of Scale's task exports."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gradebook.rubrics.importers.case_rows import CaseId, Moment, Words
from gradebook.rubrics.importers.foreign_file import OpenMapping
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.text.plain_words import shown

KINDS = ("objective", "implicit")
CRITERION_KEY = re.compile(r"rubric_[0-9]{1,9}_criteria_[0-9]{1,9}")


class Annotation(OpenMapping):
    """Annotation of a turn or a response: a criterion, a rating of one, or a choice."""

    id: str | None = None
    key: str | None = None
    title: str | None = None
    value: Any = None
    metadata: dict[str, Any] | None = None

    @property
    def is_criterion(self) -> bool:
        """Whether it is a criterion of the turn."""
        return bool(CRITERION_KEY.fullmatch(self.key or ""))

    @property
    def rated(self) -> Any:
        """Criterion that this rates; None for any other annotation."""
        if self.metadata and "criteria" in self.metadata:
            return self.metadata["criteria"]
        key = (self.id or "").removesuffix("_rating")
        return key if key != self.id and CRITERION_KEY.fullmatch(key) else None

    @model_validator(mode="after")
    def _criterion_has_words(self) -> Self:
        wrong = {}
        if self.is_criterion and not (self.title or "").strip():
            wrong["title"] = "found no words, expected the text of the criterion"
        if self.is_criterion and self.value not in (None, *KINDS):
            wrong["value"] = f"found {shown(self.value)}, expected one of {', '.join(KINDS)}"
        if wrong:
            first, *others = wrong
            message = "; ".join([wrong[first], *(f"{field}: {wrong[field]}" for field in others)])
            raise ModelFault("invalid", message, first)
        return self


class Content(OpenMapping):
    """Content of a message."""

    text: str


class Part(OpenMapping):
    """Part of a task that people may annotate."""

    id: CaseId | None = None
    annotations: list[Annotation] | None = None


class Message(Part):
    """Question or response."""

    role: Literal["system", "user", "assistant"]
    source_id: Words | None = None
    content: Content


class Turn(Part):
    """Questions, and the responses of models to them."""

    messages: Annotated[list[Message], Field(min_length=1)]

    @property
    def asked(self) -> list[Message]:
        """Messages that are not responses."""
        return [message for message in self.messages if message.role != "assistant"]

    @property
    def criteria(self) -> list[Annotation]:
        """Criteria that people wrote for it."""
        return [each for each in self.annotations or [] if each.is_criterion]

    @model_validator(mode="after")
    def _responses_come_last(self) -> Self:
        roles = [message.role for message in self.messages]
        late = roles[roles.index("assistant") :] if "assistant" in roles else []
        if set(late) - {"assistant"}:
            raise ModelFault(
                "invalid", "found a question after a response, expected a turn of its own for it", "messages"
            )
        keys = [each.key for each in self.criteria]
        if len(keys) > len(set(keys)):
            message = f"found the keys {', '.join(map(str, keys))}, expected each criterion once"
            raise ModelFault("invalid", message, "annotations")
        return self


class Thread(Part):
    """Sequence of turns."""

    turns: Annotated[list[Turn], Field(min_length=1)]


class Task(OpenMapping):
    """Task of an export."""

    task_id: CaseId
    completed_at: Moment | None = None
    threads: Annotated[list[Thread], Field(min_length=1)]
