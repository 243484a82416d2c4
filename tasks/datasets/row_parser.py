"""Parsing of rows into outputs: column names mapped, cells decoded, misfits explained."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import orjson
from pydantic import ValidationError

from gradebook.rubrics.files.case_criteria import case_criteria_fault, case_work_fault
from gradebook.rubrics.model.canonical import canonical_json
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, Output, OutputRow, misfit_reason, reference_text
from gradebook.tasks.datasets.file_formats import Format
from gradebook.tasks.datasets.json_texts import Notes, load_json
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


def _as_is(cell: Any, _notes: Notes) -> Any:
    return cell


_CELLS: Mapping[Format, Mapping[str, _Cell]] = {
    "jsonl": {},
    "csv": {
        "prompt": _or_none(read_messages),
        "reference": _or_none(_as_is),
        "context": _or_none(_read_texts),
        "checkpoint": _or_none(_as_is),
        "sample_index": _or_none(_read_integer),
        "metadata": _or_none(_read_json(dict)),
        "criteria": _or_none(_read_json(list)),
        "cluster": _or_none(_as_is),
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
        known = {column: row[source] for column, source in self._sources.items() if source in row}
        self.has_prompts = self.has_prompts or "prompt" in known
        for column, read in _CELLS[form].items():
            if column in known:
                known[column] = read(known[column], self._notes)
        if self._checkpoint is not None and known.get("checkpoint") is None:
            known["checkpoint"] = self._checkpoint.checkpoint
        try:
            output = _make_output(OutputRow.model_validate(known), {name: row[name] for name in self._extras(row)})
        except ValidationError as error:
            return misfit_reason(known, error)
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
