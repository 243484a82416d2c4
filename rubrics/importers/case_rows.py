"""Case rows: fields shared by foreign formats, and the conversion of a file of rows to cases."""

import contextlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_rows
from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.metadata import Kept, given, kept_as
from gradebook.rubrics.model.levels import number_as_text
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.text.plain_words import shown

UNKNOWN_MODEL = "unknown"
ANSWER_COLUMNS = ("output", "response", "completion")


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("found blank text, expected words")
    return text


def _check_prompt(value: Any) -> Any:
    """Check that a prompt is non-blank text, or chat messages with a role and a content each."""
    if isinstance(value, str):
        return _refuse_blank(value)
    if not isinstance(value, list) or not value:
        raise ValueError(f"found {shown(value)}, expected text or a list of chat messages")
    for number, message in enumerate(value):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(f"found {shown(message)} as message {number}, expected a mapping with a role")
        if not isinstance(message.get("content"), (str, list)):
            raise ValueError(f"found {shown(message.get('content'))} as the content of message {number}, expected text")
    return value


def _check_time(text: str) -> str:
    with contextlib.suppress(ValidationError):
        TypeAdapter(datetime).validate_python(text)
        return text
    raise ValueError(f"found {shown(text)}, expected a date and time")


Words = Annotated[str, AfterValidator(_refuse_blank)]
CaseId = Annotated[str, BeforeValidator(number_as_text), AfterValidator(_refuse_blank)]
Prompt = Annotated[Any, AfterValidator(_check_prompt)]
Moment = Annotated[str, AfterValidator(_check_time)]
SampleIndex = Annotated[int, Field(ge=0, lt=2**31)]


class Answered(OpenMapping):
    """Foreign row that may have an answer to its case."""

    output: str | None = None
    response: str | None = None
    completion: str | None = None
    model: Words | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        columns = [name for name in ANSWER_COLUMNS if getattr(self, name) is not None]
        if len(columns) > 1:
            raise ValueError(f"found {' and '.join(columns)}, expected one of them")
        return self

    @property
    def answer_columns(self) -> Row:
        """`model` and `output`; empty without an answer."""
        answers = (getattr(self, name) for name in ANSWER_COLUMNS)
        return answer_columns(self.model, next((answer for answer in answers if answer is not None), None))

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Unused fields: the model, if there is no answer."""
        return () if self.answer_columns else ("model",)


def answer_columns(model: str | None, output: str | None) -> Row:
    """`model` and `output`; empty without an answer."""
    return {} if output is None else {"model": model or UNKNOWN_MODEL, "output": output}


class CaseShape(OpenMapping):
    """Foreign row with a case."""

    @property
    @abstractmethod
    def identity(self) -> tuple[str | None, Any]:
        """Its own id, and the content that identifies the case if there is none."""

    @abstractmethod
    def columns(self, kept: Kept) -> Row:
        """Columns of the row other than the case's id."""


AnyCase = TypeVar("AnyCase", bound=CaseShape)


def read_cases(text: str, path: str, shape: type[AnyCase], kept: Kept) -> list[tuple[AnyCase, Row]]:
    """Read the rows of a file, each with its case's row. Raises `RubricError` with every fault."""
    entries = open_rows(text, path)
    shaped = [(entry, row) for entry in entries if (row := entry.fit(shape, entry.value))]
    names = name_cases([row.identity for _, row in shaped])
    found = [{"case_id": name, **row.columns(kept)} for (_, row), name in zip(shaped, names, strict=True)]
    _note_disagreements(zip((entry for entry, _ in shaped), found, strict=True))
    entries[0].stop_at_faults()
    return [*zip((row for _, row in shaped), number_samples(found), strict=True)]


def import_cases(text: str, path: str, shape: type[AnyCase]) -> Imported:
    """Import the cases of a file of rows without ratings. Raises `RubricError` with every fault."""
    kept = Kept()
    found = read_cases(text, path, shape, kept)
    return Imported(cases=tuple(case for _, case in found), kept=kept.words())


def criterion_row(criterion_id: str, description: str, format_name: str, left: Row, **columns: Any) -> Row:
    """Per-case criterion, for a judge unless the columns state otherwise; columns that are None are omitted."""
    row = {"id": criterion_id, "description": description, "method": {"type": "judge"}, **columns}
    return {**given(row), **kept_as(format_name, left)}


def name_cases(contents: Sequence[tuple[str | None, Any]]) -> list[str]:
    """Choose one id per row from (its own id, the case's content): rows with equal content and no id are one case."""
    taken = {own for own, _ in contents if own is not None}
    names: dict[str, str] = {}
    free = (name for number in range(1, 2 * len(contents) + 2) if (name := f"case_{number}") not in taken)
    found = []
    for own, content in contents:
        key = json.dumps(content, sort_keys=True)
        if own is None and key not in names:
            names[key] = next(free)
        found.append(own if own is not None else names[key])
    return found


def _note_disagreements(found: Iterable[tuple[Reading, Row]]) -> None:
    """Report cases that are repeated with another prompt or other criteria, or without an answer of their own."""
    firsts: dict[str, Row] = {}
    for entry, row in found:
        first = firsts.setdefault(row["case_id"], row)
        if first is row:
            continue
        again = f"found the case {row['case_id']!r} again"
        others = [column for column in ("prompt", "criteria") if first.get(column) != row.get(column)]
        if others:
            entry.note((), f"{again}, its {others[0]} not the same, expected equal ones")
        elif "output" not in row:
            entry.note((), f"{again}, expected each case once")


def number_samples(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Give a `sample_index` to each row after a model's first answer, so that all samples are distinct."""
    numbered: list[Row] = []
    taken: set[tuple[Any, ...]] = set()
    for row in rows:
        owner = (row["case_id"], row.get("model"), row.get("checkpoint"))
        index = row.get("sample_index") or 0
        while (*owner, index) in taken:
            index += 1
        taken.add((*owner, index))
        numbered.append({**row, "sample_index": index} if index else row)
    return tuple(numbered)


def prompt_key(prompt: Any) -> str:
    """Key that is equal for prompts of equal text, bare or as a single user message."""
    if isinstance(prompt, list) and len(prompt) == 1 and prompt[0].get("role") == "user":
        prompt = prompt[0].get("content")
    return prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
