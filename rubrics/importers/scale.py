"""Scale task exports: conversations, their criteria written by people, and ratings of each response.

One case per turn, one row per response, one rating per annotation of it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gradebook.rubrics.importers.case_rows import (
    UNKNOWN_MODEL,
    Case,
    CaseId,
    Moment,
    NonBlank,
    criterion_row,
    export_cases,
)
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, indented_json, open_rows
from gradebook.rubrics.importers.metadata import FieldCounts, drop_empty, imported_metadata, mapping_or_empty
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.text.plain_words import quote_value

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
        """Criterion that this annotation rates; None for other annotations."""
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
            wrong["value"] = f"found {quote_value(self.value)}, expected one of {', '.join(KINDS)}"
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
    source_id: NonBlank | None = None
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
        """Criteria that people wrote for the turn."""
        return [annotation for annotation in self.annotations or [] if annotation.is_criterion]

    @model_validator(mode="after")
    def _responses_come_last(self) -> Self:
        roles = [message.role for message in self.messages]
        late = roles[roles.index("assistant") :] if "assistant" in roles else []
        if set(late) - {"assistant"}:
            raise ModelFault(
                "invalid", "found a question after a response, expected a turn of its own for it", "messages"
            )
        keys = [criterion.key for criterion in self.criteria]
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


DEFAULT_RATER = "scale"
_SCORES = {"major_issues": 0.0, "minor_issues": 0.5, "no_issues": 1.0}
LEVELS = tuple({"id": level_id, "score": score} for level_id, score in _SCORES.items())
NO_CRITERION = "messages[].annotations[] of no criterion:"
SELECTED, LIKERT, JUSTIFICATION = CHOICES = ("selected_model_id", "likert_value", "justification")
_RATERS = ("rater", "annotator", "annotator_id", "worker_id", "contributor_id")


@dataclass(frozen=True, slots=True)
class _Case:
    """Turn: questions, and the responses to them."""

    reading: Reading
    case_id: str
    task: Task
    turn: Turn
    kept: Row  # stored content of the task, the thread and the turn
    earlier: tuple["_Case", ...]


def read_scale(text: str, path: str) -> Imported:
    """Import one case per turn, one row per response, one rating per annotation, one choice per selection.

    Raises `RubricError`.

    A case's id is the task's id, followed by those of thread and turn if there are several. Earlier turns are part of
    the prompt, each with its selected response, else the same model's response, else the last response.
    """
    stored_fields = FieldCounts()
    entries = open_rows(text, path)
    rows: list[Row] = []
    ratings: list[Row] = []
    choices: list[Row] = []
    case_ids: set[str] = set()
    tasks = [(entry, task) for entry in entries if (task := entry.fit(Task, entry.value))]
    for entry, task in tasks:
        _note_stored(task, stored_fields)
        for case in _cases(entry, task):
            if case.case_id in case_ids:
                case.reading.note((), f"found the case {case.case_id!r} again, expected it once")
            case_ids.add(case.case_id)
            rows += _rows(case, stored_fields)
            ratings += _ratings(case, stored_fields)
            choices += _choice(case, stored_fields)
    entries[0].stop_at_faults()
    return Imported(cases=tuple(rows), ratings=tuple(ratings), choices=tuple(choices), kept=stored_fields.words())


def _note_stored(task: Task, stored_fields: FieldCounts) -> None:
    stored_fields.note_all("", task.unknown_keys)
    for thread in task.threads:
        stored_fields.note_all("threads[].", thread.unknown_keys_with("annotations"))
        for turn in thread.turns:
            stored_fields.note_all("turns[].", turn.unknown_keys)
            for annotation in turn.annotations or []:
                extra = (
                    annotation.unknown_keys_with("id", "metadata")
                    if annotation.is_criterion
                    else {str(annotation.key or annotation.id): annotation}
                )
                stored_fields.note_all("turns[].annotations[].", extra)
            for message in turn.messages:
                unplaced = ("source_id", "annotations") if message.role != "assistant" else ()
                stored_fields.note_all(
                    "messages[].", {**message.unknown_keys_with(*unplaced), **message.content.unknown_keys}
                )


def _cases(entry: Reading, task: Task) -> Iterator[_Case]:
    for t, thread in enumerate(task.threads):
        thread_id = thread.id or f"thread_{t}"
        earlier: tuple[_Case, ...] = ()
        for u, turn in enumerate(thread.turns):
            turn_id = turn.id or f"turn_{u}"
            ids = ((thread_id, task.threads), (turn_id, thread.turns))
            case_id = "/".join([task.task_id, *(name for name, siblings in ids if len(siblings) > 1)])
            question_messages = [_set_fields(message) for message in turn.asked]
            other_annotations = [
                _set_fields(annotation) for annotation in turn.annotations or [] if not annotation.is_criterion
            ]
            stored_keys = {
                "task": _set_fields(task, "threads"),
                "thread": {**_set_fields(thread, "turns"), "id": thread_id},
                "turn": {
                    **_set_fields(turn),
                    "id": turn_id,
                    "messages": question_messages,
                    "annotations": other_annotations,
                },
                **_choices(turn),
            }
            reading = entry.within(("threads", t, "turns", u), turn)
            case = _Case(reading, case_id, task, turn, stored_keys, earlier)
            earlier = (*earlier, case)
            yield case


def _choices(turn: Turn) -> Row:
    """Selected model, likert value and justification: annotations, or keys of the turn."""
    fields: Row = turn.unknown_keys
    fields |= {
        str(annotation.key): annotation.value for annotation in turn.annotations or [] if annotation.value is not None
    }
    return {name: fields[name] for name in CHOICES if name in fields}


def _set_fields(foreign: OpenMapping, *without: str) -> Row:
    return foreign.model_dump(exclude_unset=True, exclude=set(without))


def _responses(case: _Case) -> Iterator[tuple[int, Message, Row]]:
    """Each response with its index among the turn's messages, and the columns that name its output."""
    counts: Counter[str] = Counter()
    for index, message in enumerate(case.turn.messages):
        if message.role == "assistant":
            model = message.source_id or UNKNOWN_MODEL
            sample = {"sample_index": counts[model]} if counts[model] else {}
            counts[model] += 1
            yield index, message, {"case_id": case.case_id, "model": model, **sample}


def _rows(case: _Case, stored_fields: FieldCounts) -> list[Row]:
    """One row per response; a single row without an output if there is no response."""
    rows = []
    shared = drop_empty({"criteria": [_criterion(criterion) for criterion in case.turn.criteria]})
    for _, message, output in _responses(case):
        message_content = {
            **_set_fields(message, "role", "source_id", "content"),
            "content": message.content.unknown_keys,
        }
        columns = {**output, "output": message.content.text, **_prompt(case, output["model"], stored_fields), **shared}
        rows.append({**columns, "metadata": {"scale": {**case.kept, "message": drop_empty(message_content)}}})
    case_row = {"case_id": case.case_id, **shared, "metadata": {"scale": case.kept}}
    return rows or [{**case_row, **_prompt(case, None, stored_fields)}]


def _prompt(case: _Case, model: str | None, stored_fields: FieldCounts) -> Row:
    """Messages before this model's response."""
    messages: list[Message] = []
    for past in case.earlier:
        messages += past.turn.asked
        by_model = {output["model"]: message for _, message, output in _responses(past)}
        selected = past.kept.get(SELECTED)
        name = selected if isinstance(selected, str) and selected in by_model else model
        if name not in by_model and len(by_model) > 1:
            stored_fields.note("prompts after a turn without a selected response (its last one stands in them)")
        if by_model:
            messages.append(by_model.get(name) or list(by_model.values())[-1])
    chat = [{"role": message.role, "content": message.content.text} for message in [*messages, *case.turn.asked]]
    return drop_empty({"prompt": chat})


def _criterion(annotation: Annotation) -> Row:
    extra = annotation.unknown_keys_with("id", "metadata")
    levels = [dict(level) for level in LEVELS]
    rated = {"method": {"type": "ratings"}, "levels": levels}
    return criterion_row(str(annotation.key), str(annotation.title), "scale", extra, category=annotation.value, **rated)


def _ratings(case: _Case, stored_fields: FieldCounts) -> Iterator[Row]:
    rated_at = drop_empty({"rated_at": case.task.completed_at})
    criterion_keys = [str(criterion.key) for criterion in case.turn.criteria]
    for index, message, output in _responses(case):
        for number, annotation in enumerate(message.annotations or []):
            place = ("messages", index, "annotations", number)
            if annotation.rated is None:
                stored_fields.note(f"{NO_CRITERION} {annotation.key or annotation.id or number}")
                continue
            if annotation.rated not in criterion_keys:
                expected = f"expected one of the turn's criteria: {', '.join(criterion_keys)}"
                case.reading.note(
                    (*place, "metadata", "criteria"), f"found {quote_value(annotation.rated)}, {expected}"
                )
            elif annotation.value not in [*_SCORES]:
                case.reading.note(
                    (*place, "value"), f"found {quote_value(annotation.value)}, expected one of {', '.join(_SCORES)}"
                )
            else:
                rating = {
                    "criterion_id": annotation.rated,
                    "rater": _rater(annotation, case.task),
                    "level_id": annotation.value,
                }
                yield {**output, **rating, **rated_at}


def _choice(case: _Case, stored_fields: FieldCounts) -> Iterator[Row]:
    """Selection among the turn's responses; nothing without a selection or without other responses."""
    selected = case.kept.get(SELECTED)
    outputs = [output for _, _, output in _responses(case)]
    if selected is None:
        return
    if [output["model"] for output in outputs].count(selected) != 1:
        stored_fields.note(f"{SELECTED} that names no response, or several")
        return
    other_outputs = [output for output in outputs if output["model"] != selected]
    by = next((annotation for annotation in case.turn.annotations or [] if annotation.key == SELECTED), None)
    likert, notes = case.kept.get(LIKERT), case.kept.get(JUSTIFICATION)
    number = float(likert) if isinstance(likert, int | float) and not isinstance(likert, bool) else None
    if other_outputs:
        yield {
            **next(output for output in outputs if output["model"] == selected),
            "others": other_outputs,
            "rater": _rater(by, case.task),
            **({} if number is None else {LIKERT: number}),
            **drop_empty({"notes": notes if isinstance(notes, str) else None, "rated_at": case.task.completed_at}),
        }


def _rater(annotation: Annotation | None, task: Task) -> str:
    sources = (
        ({}, {}, task.unknown_keys)
        if annotation is None
        else (annotation.unknown_keys, annotation.metadata or {}, task.unknown_keys)
    )
    names = (source.get(name) for source in sources for name in _RATERS)
    return next((name for name in names if isinstance(name, str) and name.strip()), DEFAULT_RATER)


def write_scale(rows: Sequence[Row]) -> Exported:
    """Write a JSON list of tasks, with turns and responses restored. Raises `RubricError`."""
    return export_cases(rows, lambda cases: indented_json(_tasks(cases)), read_scale)


def criterion_key(criterion_id: str, number: int) -> str:
    """Key of a criterion's annotation: its id, if that is a valid key. number: its index in the case, from 0."""
    return criterion_id if CRITERION_KEY.fullmatch(criterion_id) else f"rubric_0_criteria_{number}"


def _tasks(cases: Iterable[Case]) -> list[Row]:
    tasks: list[Row] = []
    slots: dict[tuple[str, ...], list[Row]] = {}
    for case in cases:
        imported = case.kept("scale")
        task = {"task_id": case.case_id, **imported_metadata(imported, "task")}
        thread = {"id": "thread_0", **imported_metadata(imported, "thread")}
        turn = _turn(case, imported_metadata(imported, "turn"))
        inner = tasks
        ids: tuple[str, ...] = ()
        for entry, name in ((task, "threads"), (thread, "turns"), (turn, "messages")):
            ids = (*ids, str(entry.get("task_id" if name == "threads" else "id")))
            if ids not in slots:
                slots[ids] = [*turn["messages"]] if name == "messages" else []
                inner.append({**entry, name: slots[ids]})
            inner = slots[ids]
        if case.output is not None:
            message = {**imported_metadata(imported, "message"), "role": "assistant", "source_id": case.model}
            inner.append({**message, "content": {**imported_metadata(message, "content"), "text": case.output}})
    return tasks


def _turn(case: Case, imported: Row) -> Row:
    """Turn as it was read, without its responses and with the current criteria."""
    annotations = []
    for number, criterion in enumerate(case.criteria):
        key = criterion_key(criterion.id, number)
        kind = {"value": criterion.category} if criterion.category in KINDS else {}
        annotations.append(
            {**imported_metadata(criterion.metadata, "scale"), "key": key, "title": criterion.description, **kind}
        )
    other_annotations = imported["annotations"] if isinstance(imported.get("annotations"), list) else []
    prompt = case.prompt if isinstance(case.prompt, list) else [{"role": "user", "content": case.prompt}]
    question_messages = [
        {"role": m["role"], "content": {"text": m["content"]}} for m in prompt if m["role"] != "assistant"
    ]
    messages = {} if isinstance(imported.get("messages"), list) else {"messages": question_messages}
    return {"id": "turn_0", **imported, **messages, "annotations": [*annotations, *other_annotations]}


OutputKey = tuple[str, str, int]  # case, model, sample
Marks = Mapping[tuple[str, str], str | None]  # (criterion, rater) -> level; None: withdrawn


def output_key(row: Row) -> OutputKey:
    """Output that a row or a rating belongs to."""
    return row["case_id"], row.get("model") or UNKNOWN_MODEL, row.get("sample_index") or 0


def annotate(rows: Sequence[Row], marks: Mapping[OutputKey, Marks]) -> tuple[list[Row], FieldCounts]:
    """Rows with the marks as annotations; a rater's earlier annotation of a criterion is replaced. Also returns the
    fields without a place among the annotations.
    """
    lost_fields = FieldCounts()
    return [
        _with_annotations(row, marks[key], lost_fields)
        if "output" in row and (key := output_key(row)) in marks
        else row
        for row in rows
    ], lost_fields


def with_choices(rows: Sequence[Row], choices: Mapping[str, Row | None]) -> list[Row]:
    """Rows with the selected response of each case. choices: case -> `model`, `notes` and `likert_value`; None:
    there is no best response, so none is selected.
    """
    return [_with_choice(row, choices[row["case_id"]]) if row["case_id"] in choices else row for row in rows]


def _with_choice(row: Row, choice: Row | None) -> Row:
    metadata = mapping_or_empty(row.get("metadata"))
    scale = mapping_or_empty(metadata.get("scale"))
    turn = mapping_or_empty(scale.get("turn"))
    choices = choice or {}
    values = {SELECTED: choices.get("model"), LIKERT: choices.get("likert_value"), JUSTIFICATION: choices.get("notes")}
    annotations = turn["annotations"] if isinstance(turn.get("annotations"), list) else []
    placed = [
        annotation if annotation.get("key") not in CHOICES else {**annotation, "value": values[annotation["key"]]}
        for annotation in annotations
    ]
    known_keys = {annotation.get("key") for annotation in annotations} | turn.keys()
    placed += [{"key": key, "value": value} for key, value in values.items() if key not in known_keys]
    turn_fields = {key: values.get(key, value) for key, value in turn.items()} | {
        "annotations": [
            annotation
            for annotation in placed
            if annotation.get("key") not in CHOICES or annotation["value"] is not None
        ]
    }
    turn = {key: value for key, value in turn_fields.items() if key not in CHOICES or value is not None}
    choice_keys = {key: value for key, value in values.items() if value is not None}
    scale = {key: value for key, value in scale.items() if key not in CHOICES} | {"turn": turn} | choice_keys
    return {**row, "metadata": {**metadata, "scale": scale}}


def _with_annotations(row: Row, marks: Marks, lost_fields: FieldCounts) -> Row:
    row = deepcopy(row)
    message = mapping_or_empty(mapping_or_empty(mapping_or_empty(row.get("metadata")).get("scale")).get("message"))
    keys = {criterion["id"]: criterion_key(criterion["id"], number) for number, criterion in enumerate(row["criteria"])}
    placed, extra = [], iter(read_scale(write_scale([row]).text, "a row to export").ratings)
    replaced = set()
    for annotation in message.get("annotations") or ():
        if Annotation.model_validate(annotation).rated is None:
            placed.append(annotation)
            continue
        rating = next(extra)
        mark = (rating["criterion_id"], rating["rater"])
        replaced.add(mark)
        level = marks.get(mark, rating["level_id"])
        if level is not None:
            placed.append({**annotation, "value": level})
    level_ids = [str(level["id"]) for level in LEVELS]
    for (criterion_id, rater), level in marks.items():
        if level is None or (criterion_id, rater) in replaced:
            continue
        if criterion_id not in keys or level not in level_ids:
            lost_fields.note(
                f"ratings and verdicts of other criteria, or with other levels than {', '.join(level_ids)}"
            )
            continue
        key = keys[criterion_id]
        placed.append({"id": f"{key}_rating", "value": level, "rater": rater, "metadata": {"criteria": key}})
    scale = {
        **mapping_or_empty(mapping_or_empty(row.get("metadata")).get("scale")),
        "message": {**message, "annotations": placed},
    }
    return {**row, "metadata": {**mapping_or_empty(row.get("metadata")), "scale": scale}}


SUMMARY = "tasks with responses, criteria and ratings"
FORMAT = Format("scale", SUMMARY, ".json", "cases", read_scale, write_scale)
