"""Parsing of rows into outputs: column names mapped, cells decoded, misfits explained, conversations split.

The column `messages` holds a conversation whose last message is the answer, as in OpenAI's files. Where the assistant
called tools, the conversation is a trajectory: what was asked before the assistant's first message is the prompt, and
what follows are the steps that led to the answer.
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import dropwhile, repeat, takewhile
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from gradebook.rubrics.files.case_criteria import case_criteria_fault, case_work_fault
from gradebook.rubrics.model.json_values import canonical_json
from gradebook.rubrics.model.outputs import (
    OUTPUT_COLUMNS,
    Output,
    OutputRow,
    describe_value,
    has_conversations,
    misfit_reason,
    optional_columns,
    reference_text,
)
from gradebook.rubrics.prompts.media import media_source
from gradebook.tasks.datasets.file_formats import Format, Notes, RawRow, load_json, name_without_suffixes
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint

AUDIO = "audio"  # column that names the sound of a transcript; stored in metadata
_MOST_LAYOUTS = 1_000

_Cell = Callable[[Any, Notes], Any]


def _read_json(kind: type) -> _Cell:
    """Make a reader of JSON texts of this kind; other values pass unchanged, for the model to validate."""

    def read(cell: Any, notes: Notes) -> Any:
        if not isinstance(cell, str):
            return cell
        try:
            value = load_json(cell, read := Notes())
        except json.JSONDecodeError:
            return cell
        if not isinstance(value, kind):
            return cell
        notes.update(read)
        return value

    return read


def _read_texts(cell: str, notes: Notes) -> Any:
    values = _read_json(list)(cell, notes) if cell.startswith("[") else cell
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else cell


def read_messages(cell: Any, notes: Notes | None = None) -> Any:
    """Decode chat messages written as JSON; other values pass unchanged. notes: see `load_json`."""
    is_json = isinstance(cell, str) and cell.startswith("[")
    messages = _read_json(list)(cell, Notes() if notes is None else notes) if is_json else cell
    if not isinstance(messages, list) or not messages:
        return cell
    return messages if all(isinstance(message, dict) and "role" in message for message in messages) else cell


def _read_integer(cell: str, _notes: Notes) -> Any:
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 20 else cell


def _or_none(read: _Cell) -> _Cell:
    """Read an empty CSV cell as a missing value."""
    return lambda cell, notes: None if cell == "" else read(cell, notes)


def _unchanged(cell: Any, _notes: Notes) -> Any:
    return cell


_CELLS: Mapping[Format, Mapping[str, _Cell]] = {
    "jsonl": {},
    "csv": {
        "prompt": _or_none(read_messages),
        "reference": _or_none(_unchanged),
        "context": _or_none(_read_texts),
        "checkpoint": _or_none(_unchanged),
        "sample_index": _or_none(_read_integer),
        "metadata": _or_none(_read_json(dict)),
        "criteria": _or_none(_read_json(list)),
        "cluster": _or_none(_unchanged),
        "steps": _or_none(_read_json(list)),
    },
    "parquet": {
        "prompt": read_messages,
        "metadata": _read_json(dict),
        "criteria": _read_json(list),
        "steps": _read_json(list),
    },
}


class RowFitter:
    """Parser of a dataset's rows; collects columns unknown to gradebook, which go into metadata.

    taken_ids: ids of the rubric's criteria, which per-case criteria must not use. is_unscored_allowed: accept per-case
    criteria with a method that nothing scores. checkpoint: set on rows without one; rows of another checkpoint or model
    do not fit. notes: see `load_json`.
    """

    def __init__(
        self,
        column_map: Mapping[str, str],
        taken_ids: Collection[str] = (),
        *,
        is_unscored_allowed: bool = False,
        checkpoint: OneCheckpoint | None = None,
        notes: Notes | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._notes = Notes() if notes is None else notes
        self._taken_ids, self._is_unscored_allowed = taken_ids, is_unscored_allowed
        self._criteria_faults: dict[str, str] = {}  # by the criteria as text
        self._sources = {column: column_map.get(column, column) for column in OUTPUT_COLUMNS}
        self._layouts: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._extra_columns: dict[str, None] = {}
        self.has_prompts = False  # a row so far has a prompt, or a place for one

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Unknown columns so far, in order of appearance."""
        return tuple(self._extra_columns)

    def fit(self, row: dict[str, Any], form: Format) -> Output | str:
        """Parse a row into an output, or return the reason why it does not fit."""
        cells = {column: row[source] for column, source in self._sources.items() if source in row}
        self.has_prompts = self.has_prompts or "prompt" in cells
        for column, read in _CELLS[form].items():
            if column in cells:
                cells[column] = read(cells[column], self._notes)
        if self._checkpoint is not None and cells.get("checkpoint") is None:
            cells["checkpoint"] = self._checkpoint.checkpoint
        try:
            output = _make_output(OutputRow.model_validate(cells), {name: row[name] for name in self._extras(row)})
        except ValidationError as error:
            return misfit_reason(cells, error)
        except orjson.JSONEncodeError as error:
            return f"found values that can't be kept as JSON ({error}), expected fewer levels of nesting"
        if self._checkpoint is not None and (misfit := self._checkpoint.misfit(output.model, output.checkpoint)):
            return misfit
        if output.criteria is None:
            return output
        texts = (text for step in output.steps or () for text in (step.input, step.output, step.error) if text)
        searched_count = len(output.output) + sum(map(len, output.context or ())) + sum(map(len, texts))
        fault = self._criteria_fault(output.criteria) or case_work_fault(output.criteria, searched_count)
        return fault or output

    def _criteria_fault(self, text: str) -> str:
        """Fault of a row's per-case criteria. Cached by text, since several models answer each case."""
        if text not in self._criteria_faults:
            if len(self._criteria_faults) >= _MOST_LAYOUTS:
                self._criteria_faults.clear()
            self._criteria_faults[text] = case_criteria_fault(
                orjson.loads(text), self._taken_ids, is_unscored_allowed=self._is_unscored_allowed
            )
        return self._criteria_faults[text]

    def _extras(self, row: dict[str, Any]) -> tuple[str, ...]:
        """Unknown columns of a row. Cached by layout, since rows of a file share theirs."""
        layout = tuple(row)
        extras = self._layouts.get(layout)
        if extras is None:
            sources = set(self._sources.values())
            extras = tuple(name for name in layout if name not in sources)
            self._extra_columns.update(dict.fromkeys(name for name in extras if name != AUDIO))
            if len(self._layouts) < _MOST_LAYOUTS:
                self._layouts[layout] = extras
        return extras


def _make_output(row: OutputRow, extras: dict[str, Any]) -> Output:
    """Convert a valid row to its stored form; an existing metadata key wins over an extra column of that name."""
    metadata = {**extras, **(row.metadata or {})} if extras else row.metadata
    prompt = row.prompt
    return Output(
        case_id=str(row.case_id),
        model=row.model,
        checkpoint=None if row.checkpoint is None else str(row.checkpoint),
        sample_index=row.sample_index or 0,
        prompt=prompt if prompt is None or isinstance(prompt, str) else canonical_json(prompt),
        output=row.output,
        reference=None if row.reference is None else reference_text(row.reference),
        context=[row.context] if isinstance(row.context, str) else row.context,
        metadata=None if metadata is None else canonical_json(metadata),
        criteria=None if row.criteria is None else canonical_json(row.criteria),
        cluster=None if row.cluster is None else str(row.cluster),
        steps=None if row.steps is None else tuple([step.as_step() for step in row.steps]),
    )


Message = Mapping[str, Any]
_TOOL_ROLES = ("tool", "function")
_STEP_KINDS = {"assistant": "model", "system": "system", "developer": "system"}  # of the other roles: user


def split_conversation(raw: RawRow, column_map: Mapping[str, str], *, is_run: bool = False) -> RawRow:
    """Row with the last message as its output and those before as its prompt; a row without `messages` unchanged.

    A row without an id has one made of its prompt, a row without a model is named after its file. A conversation with
    results of tools gets steps, unless the row has some. is_run: every conversation gets them.
    """
    content = raw.content
    if isinstance(content, str) or not has_conversations(content, column_map, is_run=is_run):
        return raw
    return raw._replace(content=answered_row(content, raw.source, column_map, is_run=is_run))


def answered_row(
    content: dict[str, Any], source: str, column_map: Mapping[str, str], *, is_run: bool = False
) -> dict[str, Any] | str:
    """Row of a conversation as `split_conversation` makes it, or the reason why it does not fit. source: its file."""
    try:
        cells = _split(content, is_run)
        if isinstance(cells, dict):
            defaults = {"case_id": id_of_prompt(cells["prompt"]), "model": name_without_suffixes(Path(source))}
            cells |= {column: defaults[column] for column in optional_columns(content, column_map, is_run=is_run)}
        return cells
    except orjson.JSONEncodeError as error:
        return f"messages: found values that can't be kept as JSON ({error}), expected fewer levels of nesting"


def id_of_prompt(prompt: Any) -> str:
    """Id of the case that a prompt is, where the row names none."""
    return f"prompt-{blake2b(canonical_json(prompt).encode(), digest_size=6).hexdigest()}"


def _split(content: dict[str, Any], is_run: bool) -> dict[str, Any] | str:
    messages = read_messages(content["messages"])
    if not messages or not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        expected = "expected a list of chat messages, the answer last"
        return f"messages: found {describe_value(content['messages'])}, {expected}"
    # Parquet gives every message the keys of all.
    cleaned = [{name: value for name, value in message.items() if value is not None} for message in messages]
    is_run = is_run or any(message.get("role") in _TOOL_ROLES for message in cleaned)
    rest = {name: value for name, value in content.items() if name != "messages"}
    ends = [index for index, message in enumerate(cleaned) if message.get("role") == "assistant"]
    is_answered = ends[-1:] == [len(cleaned) - 1]
    if not ends or not (is_run or is_answered):
        actual = f"found {describe_value(cleaned[-1].get('role'))} as the role of the last message"
        run = ", or --from chat: the run of an agent, whose last text is the answer" if ends else ""
        return f'messages: {actual}, expected "assistant", the answer, or an `output` beside the messages{run}'
    if not is_run:
        return rest | {"prompt": cleaned[:-1] or None} | _answer(cleaned[-1])
    prompt_positions = set(find_prompt_positions(cleaned))
    steps = steps_of_messages([message for index, message in enumerate(cleaned) if index not in prompt_positions])
    if is_answered:
        answer = _answer(cleaned[-1])
    else:
        texts = (step["output"] for step in reversed(steps) if step["kind"] == "model" and step["output"])
        answer = {"output": next(texts, "")}
    prompt = [message for index, message in enumerate(cleaned) if index in prompt_positions]
    return {"prompt": prompt or None, "steps": steps, **answer, **rest}


def _answer(message: Message) -> dict[str, Any]:
    """Columns of the assistant's last message."""
    other_fields = {name: value for name, value in message.items() if name not in ("role", "content")}
    output = text_of(message.get("content"))
    if not output and other_fields:  # tool calls or a refusal are all there is of the answer
        output = (
            other_fields["refusal"] if isinstance(other_fields.get("refusal"), str) else canonical_json(other_fields)
        )
        other_fields = {}
    return ({"answer": other_fields} if other_fields else {}) | {"output": output}


def find_prompt_positions(messages: Sequence[Message]) -> list[int]:
    """Places of what an assistant was asked: all before its first message, and the user's first turn.

    A message of an `agent` counts as the assistant's.
    """
    roles = ["assistant" if "agent" in message else message.get("role") for message in messages]
    first = list(takewhile(lambda index: roles[index] != "assistant", range(len(roles))))
    if any(_STEP_KINDS.get(str(roles[index])) is None for index in first):
        return first
    later = dropwhile(lambda index: roles[index] != "user", range(len(first), len(roles)))
    return [*first, *takewhile(lambda index: roles[index] == "user", later)]


def steps_of_messages(
    messages: Sequence[Message], about: Iterable[Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Steps of a conversation, as a row has them: one for each message, and one for each tool call with its result.

    A result is matched with the earliest open call of its id, else of its name; one that has neither is that of the
    earliest open call. One without a call is a step of its own. about: further fields of each message's step, such as
    `tokens`; its `agent` is also that of the message's calls. Images and sounds are named in a step's text, and not
    shown.
    """
    steps: list[dict[str, Any]] = []
    open_calls: dict[Any, deque[dict[str, Any]]] = {}
    for message, fields in zip(messages, about or repeat({}), strict=False):
        role, text = message.get("role"), _step_text(message.get("content"))
        if role in _TOOL_ROLES:
            call = _closed_call(open_calls, message)
            if call is None:
                call = {"kind": "tool", "name": _name(message.get("name"))}
                steps.append(call)
            error = _name(message.get("error")) or text or "failed"
            call |= {"output": text} | ({"error": error} if message.get("is_error") is True else {})
            call |= fields if "latency_ms" in fields else {}
            continue
        parent = len(steps)
        kind, agent = _STEP_KINDS.get(str(role), "user"), _name(message.get("name"))
        steps.append({"kind": kind, "agent": agent, "output": text, **fields})
        for called in _calls(message):
            function_fields = called.get("function")
            function = function_fields if isinstance(function_fields, dict) else called
            step = {"kind": "tool", "name": _name(function.get("name")), "parent_index": parent}
            step |= {"agent": fields["agent"]} if "agent" in fields else {}
            step["input"] = function.get("arguments", function.get("input"))
            steps.append(step)
            open_calls.setdefault(_name(called.get("id")) or step["name"], deque()).append(step)
    return steps


def _closed_call(open_calls: dict[Any, deque[dict[str, Any]]], message: Message) -> dict[str, Any] | None:
    """Step of the call that a result belongs to, which is open no longer."""
    names = [name for name in (_name(message.get("tool_call_id")), _name(message.get("name"))) if name]
    key = next((name for name in names if name in open_calls), None if names else next(iter(open_calls), None))
    if key not in open_calls:
        return None
    step = open_calls[key].popleft()
    if not open_calls[key]:
        del open_calls[key]
    return step


def _calls(message: Message) -> list[dict[str, Any]]:
    """Tool calls of a message, also in the form from before `tool_calls` existed."""
    calls = message.get("tool_calls")
    called = calls if isinstance(calls, list) else [message.get("function_call")]
    return [call for call in called if isinstance(call, dict)]


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def text_of(content: Any) -> Any:
    """Text of an answer; of parts that are not all texts their JSON, which shows images and sounds."""
    if not isinstance(content, list):
        return content or ""
    return _join_texts(content) if all(_is_text(part) for part in content) else canonical_json(content)


def _step_text(content: Any) -> Any:
    kinds = [media_source(part)[0] for part in content] if isinstance(content, list) else []
    if not any(kinds):
        return text_of(content)
    return "\n".join(f"[{kind}]" if kind else text_of([part]) for kind, part in zip(kinds, content, strict=True))


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _join_texts(text_parts: Iterable[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in text_parts)
