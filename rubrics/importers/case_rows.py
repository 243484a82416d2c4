"""Case rows: fields shared by foreign formats, conversion of a file of rows to cases, joined answers, export."""

import contextlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, each_row, open_rows, unsupported_values
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, imported_metadata, plain_number
from gradebook.rubrics.importers.registry import Exported, Imported
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.model.levels import number_as_text
from gradebook.rubrics.model.rubric import CaseCriterion, Criterion
from gradebook.rubrics.text.plain_words import quote_value

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
        raise ValueError(f"found {quote_value(value)}, expected text or a list of chat messages")
    for number, message in enumerate(value):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(f"found {quote_value(message)} as message {number}, expected a mapping with a role")
        if not isinstance(message.get("content"), (str, list)):
            raise ValueError(
                f"found {quote_value(message.get('content'))} as the content of message {number}, expected text"
            )
    return value


def _check_time(text: str) -> str:
    with contextlib.suppress(ValidationError):
        TypeAdapter(datetime).validate_python(text)
        return text
    raise ValueError(f"found {quote_value(text)}, expected a date and time")


NonBlank = Annotated[str, AfterValidator(_refuse_blank)]
CaseId = Annotated[str, BeforeValidator(number_as_text), AfterValidator(_refuse_blank)]
Prompt = Annotated[Any, AfterValidator(_check_prompt)]
_PROMPT: TypeAdapter[Any] = TypeAdapter(Prompt)
Moment = Annotated[str, AfterValidator(_check_time)]
SampleIndex = Annotated[int, Field(ge=0, lt=2**31)]


def is_prompt(value: Any) -> bool:
    """Whether a value is a text or a list of chat messages."""
    try:
        _PROMPT.validate_python(value)
    except ValidationError:
        return False
    return True


def logged_prompt(value: Any) -> Any:
    """Prompt in an evaluator's log: a text, or chat messages, also as JSON text. None for anything else."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            return _PROMPT.validate_python(json.loads(value))
        except (ValueError, ValidationError, RecursionError):
            return value
    return value if is_prompt(value) else None


class Answered(OpenMapping):
    """Foreign row that may have an answer to its case."""

    output: str | None = None
    response: str | None = None
    completion: str | None = None
    model: NonBlank | None = None

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
        """Names of unused fields: the model, if there is no answer."""
        return () if self.answer_columns else ("model",)


def answer_columns(model: str | None, output: str | None) -> Row:
    """`model` and `output`; empty without an answer."""
    return {} if output is None else {"model": model or UNKNOWN_MODEL, "output": output}


class CaseShape(OpenMapping):
    """Foreign row with a case.

    has_own_prompts: rows of one case may have different prompts. A prompt of a second turn contains the first answer.
    """

    has_own_prompts: ClassVar[bool] = False

    @property
    @abstractmethod
    def identity(self) -> tuple[str | None, Any]:
        """Id of the case in the file, and the content that identifies a case without an id."""

    @abstractmethod
    def columns(self, stored_fields: FieldCounts) -> Row:
        """Columns of the row other than the case's id."""


AnyCase = TypeVar("AnyCase", bound=CaseShape)


def read_cases(text: str, path: str, shape: type[AnyCase], stored_fields: FieldCounts) -> list[tuple[AnyCase, Row]]:
    """Read the rows of a file, each with its case's row. Raises `RubricError` with every fault."""
    return shape_cases(open_rows(text, path), shape, stored_fields)


def shape_cases(
    entries: Sequence[Reading], shape: type[AnyCase], stored_fields: FieldCounts
) -> list[tuple[AnyCase, Row]]:
    """Validate opened rows; returns each with its case's row. Raises `RubricError` with every fault."""
    shaped = [(entry, row) for entry in entries if (row := entry.fit(shape, entry.value))]
    names = name_cases([row.identity for _, row in shaped])
    rows = [{"case_id": name, **row.columns(stored_fields)} for (_, row), name in zip(shaped, names, strict=True)]
    compared = ("criteria",) if shape.has_own_prompts else ("prompt", "criteria")
    _note_disagreements(zip((entry for entry, _ in shaped), rows, strict=True), compared)
    entries[0].stop_at_faults()
    return [*zip((row for _, row in shaped), number_samples(rows), strict=True)]


def import_cases(text: str, path: str, shape: type[AnyCase]) -> Imported:
    """Import the cases of a file of rows without ratings. Raises `RubricError` with every fault."""
    stored_fields = FieldCounts()
    cases = read_cases(text, path, shape, stored_fields)
    return Imported(cases=tuple(case for _, case in cases), kept=stored_fields.words())


def criterion_row(criterion_id: str, description: str, format_name: str, extra: Row, **columns: Any) -> Row:
    """Per-case criterion, by a judge unless `columns` has another method; columns with None are omitted."""
    row = {"id": criterion_id, "description": description, "method": {"type": "judge"}, **columns}
    return {**drop_none(row), **as_metadata(format_name, extra)}


def name_cases(contents: Sequence[tuple[str | None, Any]]) -> list[str]:
    """Choose one id per row. contents: (id, content of the case); rows with equal content and no id are one case."""
    taken_ids = {case_id for case_id, _ in contents if case_id is not None}
    names: dict[str, str] = {}
    free = (name for number in range(1, 2 * len(contents) + 2) if (name := f"case_{number}") not in taken_ids)
    case_ids = []
    for own_id, content in contents:
        key = json.dumps(content, sort_keys=True)
        if own_id is None and key not in names:
            names[key] = next(free)
        case_ids.append(own_id if own_id is not None else names[key])
    return case_ids


def _note_disagreements(rows: Iterable[tuple[Reading, Row]], compared: Sequence[str]) -> None:
    """Report cases that are repeated with another prompt or other criteria, or without an answer of their own."""
    firsts: dict[str, Row] = {}
    for entry, row in rows:
        first_row = firsts.setdefault(row["case_id"], row)
        if first_row is row:
            continue
        again = f"found the case {row['case_id']!r} again"
        different = [column for column in compared if first_row.get(column) != row.get(column)]
        if different:
            entry.note((), f"{again}, its {different[0]} not the same, expected equal ones")
        elif "output" not in row:
            entry.note((), f"{again}, expected each case once")


def number_samples(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Give a `sample_index` to each row after a model's first answer, so that all samples are distinct."""
    numbered: list[Row] = []
    taken_samples: set[tuple[Any, ...]] = set()
    for row in rows:
        owner = (row["case_id"], row.get("model"), row.get("checkpoint"))
        index = row.get("sample_index") or 0
        while (*owner, index) in taken_samples:
            index += 1
        taken_samples.add((*owner, index))
        numbered.append({**row, "sample_index": index} if index else row)
    return tuple(numbered)


def prompt_key(prompt: Any) -> str:
    """Key that is equal for prompts with equal text, as a text or as a single user message."""
    if isinstance(prompt, list) and len(prompt) == 1 and prompt[0].get("role") == "user":
        prompt = prompt[0].get("content")
    return prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)


MET_LEVELS: tuple[Row, ...] = (
    {
        "id": "not_met",
        "score": 0.0,
        "description": "The output does not do what the requirement says, or only in part.",
    },
    {"id": "met", "score": 1.0, "description": "The output does all of what the requirement says."},
)


def met_levels() -> list[Row]:
    """Default levels of a requirement, worst first."""
    return [dict(level) for level in MET_LEVELS]


def are_met_levels(criterion: Criterion) -> bool:
    """Whether a criterion has the levels not met and met, or no levels."""
    levels = criterion.scale.levels if criterion.scale else criterion.levels
    return not levels or [level.model_dump(exclude_defaults=True) for level in levels] == met_levels()


_ANSWER_KEYS = ("model", "output", "checkpoint", "sample_index")
_ID_COLUMNS = ("case_id", "prompt_id", "key", "id", "question_id")


class _Answer(Answered):
    case_id: CaseId | None = None
    prompt_id: CaseId | None = None
    key: CaseId | None = None
    id: CaseId | None = None
    question_id: Annotated[CaseId | None, Field(validation_alias=AliasChoices("QUESTION_ID", "question_id"))] = None
    response: Annotated[str | None, Field(validation_alias=AliasChoices("response", "RESPONSE"))] = None
    prompt: Prompt | None = None
    checkpoint: Annotated[str, BeforeValidator(number_as_text)] | None = None
    sample_index: SampleIndex | None = None

    @property
    def ids(self) -> list[str]:
        return [name for column in _ID_COLUMNS if (name := getattr(self, column)) is not None]

    @property
    def words(self) -> str:
        return f" ({self.ids[0]!r})" if self.ids else ""


def join_answers(cases: Sequence[Row], answers: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Join the cases with the answers of another file; also returns phrases on answers and cases without a match.

    An answer belongs to the case of its `case_id`, `prompt_id`, `key`, `id` or `question_id`, else to each case with an
    equal prompt. A case gets one row per answer; a case without an answer is unchanged. Other columns of an answer are
    stored as `metadata.answer`. Raises `RubricError` for an entry that is not an answer.
    """
    shaped = _shape_answers(answers)
    firsts: dict[str, Row] = {}
    for case in cases:
        firsts.setdefault(str(case["case_id"]), case)
    by_prompt: dict[str, list[str]] = {}
    for case_id, case in firsts.items():
        if case.get("prompt") is not None:
            by_prompt.setdefault(prompt_key(case["prompt"]), []).append(case_id)
    joined: dict[str, list[Row]] = {case_id: [] for case_id in firsts}
    unmatched = []
    for number, answer in enumerate(shaped, start=1):
        matches = _matches(answer, firsts, by_prompt)
        for case_id in matches:
            joined[case_id].append(_with_answer(firsts[case_id], answer))
        if not matches:
            unmatched.append(f"answer {number}{answer.words}: no case has its id or prompt")
    rows = _insert_answers(cases, joined)
    unmatched += [f"case {row['case_id']!r}: no answer" for row in rows if "output" not in row]
    return number_samples(rows), tuple(unmatched)


def _shape_answers(answers: Sequence[Row]) -> list[_Answer]:
    reading = Reading("the answers", answers)
    shaped = []
    for entry in each_row(reading):
        answer = entry.fit(_Answer, entry.value)
        if answer and not answer.answer_columns:
            entry.note((), f"found no answer, expected one of {', '.join(ANSWER_COLUMNS)}")
        shaped += [answer] if answer else []
    reading.stop_at_faults()
    return shaped


def _matches(answer: _Answer, firsts: dict[str, Row], by_prompt: dict[str, list[str]]) -> list[str]:
    """Cases of an answer. An id counts only if the prompts, when both exist, are equal."""
    key = None if answer.prompt is None else prompt_key(answer.prompt)
    for case_id in answer.ids:
        if case_id in firsts and key in (None, prompt_key(firsts[case_id].get("prompt") or answer.prompt)):
            return [case_id]
    return [] if key is None else by_prompt.get(key, [])


def _with_answer(case: Row, answer: _Answer) -> Row:
    """Row for an answer: the case with this answer in place of any other."""
    row = {name: value for name, value in case.items() if name not in _ANSWER_KEYS} | answer.answer_columns
    row |= drop_none({"checkpoint": answer.checkpoint, "sample_index": answer.sample_index})
    return (
        {**row, "metadata": {**(row.get("metadata") or {}), "answer": answer.unknown_keys}}
        if answer.unknown_keys
        else row
    )


def _insert_answers(cases: Sequence[Row], joined: dict[str, list[Row]]) -> list[Row]:
    """Put each case's answers after its own rows, or in place of rows without an output."""
    rows: list[Row] = []
    last = {str(case["case_id"]): index for index, case in enumerate(cases)}
    for index, case in enumerate(cases):
        case_id = str(case["case_id"])
        if "output" in case or not joined[case_id]:
            rows.append(case)
        if last[case_id] == index:
            rows += joined[case_id]
    return rows


_EXPORTED = "the rows to export"


class Case(BaseModel):
    """Row of `Imported.cases`, in the form that `write` accepts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case_id: CaseId
    model: NonBlank | None = None
    output: str | None = None
    prompt: Prompt | None = None
    reference: str | None = None
    context: str | list[str] | None = None
    checkpoint: str | int | None = None
    sample_index: SampleIndex | None = None
    metadata: dict[str, Any] = {}
    criteria: tuple[CaseCriterion, ...] = ()

    def kept(self, name: str) -> Row:
        """Data of this format stored with the row by an import."""
        return imported_metadata(self.metadata, name)


def weight_of(criterion: CaseCriterion) -> float | int:
    """Weight of a criterion as in a file: 5 for 5.0; default 1."""
    return 1 if criterion.weight is None else plain_number(criterion.weight)


def prompt_text(prompt: Any) -> str:
    """Prompt as one text: chat messages one below the other, each with its role; a single message without its role."""
    if not isinstance(prompt, list):
        return prompt or ""
    if len(prompt) == 1:
        return str(prompt[0]["content"])
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in prompt)


def export_cases(
    rows: Sequence[Row], write: Callable[[list[Case]], str], read: Callable[[str, str], Imported]
) -> Exported:
    """Export rows to a foreign text; the result's `lost` lists content that reading the text does not restore.

    Raises `RubricError` if a row is not a case, or does not fit the format.
    """
    reading = Reading(_EXPORTED, [*rows])
    for place, message in unsupported_values(reading.value):
        reading.note(place, message)
    reading.stop_at_faults()
    cases = [case for entry in each_row(reading) if (case := entry.fit(Case, entry.value))]
    reading.stop_at_faults()
    text = write(cases)
    again = {_sample_key(case): case for row in read(text, _EXPORTED).cases for case in [Case.model_validate(row)]}
    lost_fields = FieldCounts()
    for case in cases:
        twin = again.get(_sample_key(case))
        lost_fields.note(*(_lost_fields(case, twin) if twin else ("rows",)))
    return Exported(text, lost_fields.words())


def _sample_key(case: Case) -> tuple[Any, ...]:
    return case.case_id, case.model, case.sample_index or 0


def _lost_fields(case: Case, twin: Case) -> Iterable[str]:
    """Fields of a row lost in the text, individually for metadata and criteria."""
    if case.prompt is not None and prompt_key(case.prompt) != prompt_key(twin.prompt):
        yield "prompt"
    for column in ("output", "reference", "context", "checkpoint"):
        if getattr(case, column) not in (None, getattr(twin, column)):
            yield column
    yield from (f"metadata.{name}" for name, value in case.metadata.items() if twin.metadata.get(name) != value)
    by_id = {criterion.id: criterion for criterion in twin.criteria}
    if len(case.criteria) == len(twin.criteria):  # a format that renames criteria preserves their order
        by_id = {criterion.id: other for criterion, other in zip(case.criteria, twin.criteria, strict=True)}
    for criterion in case.criteria:
        if criterion.id not in by_id:
            yield f"criteria of the method {criterion.method.type}"
            continue
        read_fields = _set_fields(by_id[criterion.id])
        yield from (
            f"criteria[].{key}" for key, value in _set_fields(criterion).items() if read_fields.get(key) != value
        )


def _set_fields(criterion: CaseCriterion) -> Row:
    """Fields of a criterion that differ from their defaults, and its weight."""
    fields: Row = criterion.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**fields, "weight": weight_of(criterion)}
