"""Texts, rows and completions of a caller, read as outputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.files.case_criteria import read_case_criteria_text
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.errors import Fault, InputError, OutputsError
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, Output, output_id
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric
from gradebook.tasks.datasets.case_criteria import taken_ids
from gradebook.tasks.datasets.row_parser import RowFitter

CASE_ID, MODEL = "text", "artifact"  # of a text that comes without them
# Arguments that TRL passes beside the columns of its dataset.
TRAINER_ARGUMENTS = frozenset({"completion_ids", "prompt_ids", "trainer_state", "log_extra", "log_metric"})

Given = str | Mapping[str, Any]  # a text, or a row of outputs


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """An output with its id and its own criteria."""

    output_id: str
    output: Output
    own: tuple[CaseCriterion, ...] = ()


class RowReader:
    """Reader of a caller's outputs, by the rules for the rows of a file.

    column_map: the caller's names of columns, by gradebook's, as `--map`.
    """

    def __init__(self, rubric: Rubric, column_map: Mapping[str, str], *, is_unscored_allowed: bool = False) -> None:
        if unknown := [name for name in column_map if name not in OUTPUT_COLUMNS]:
            raise InputError("column_map", repr(unknown[0]), f"one of {', '.join(OUTPUT_COLUMNS)}")
        self._fitter = RowFitter(column_map, taken_ids(rubric), is_unscored_allowed=is_unscored_allowed)
        self._sources = {column: column_map.get(column, column) for column in OUTPUT_COLUMNS}

    def read(self, given: Iterable[Given]) -> list[ReadOutput]:
        """Read texts and rows. Raises `OutputsError` with every one that does not fit; its line is its place from 1."""
        found = self.read_each(given)
        refuse_misfits(found)
        return [each for each in found if isinstance(each, ReadOutput)]

    def read_each(self, given: Iterable[Given]) -> list[ReadOutput | str]:
        """Read texts and rows; one that does not fit becomes the reason."""
        return [self._read(each) for each in given]

    def _read(self, given: Given) -> ReadOutput | str:
        fitted = self._fit(given)
        if isinstance(fitted, str):
            return fitted
        try:
            identity = output_id(fitted)
        except UnicodeEncodeError:
            return "found a text with half of a surrogate pair, expected Unicode text"
        own = read_case_criteria_text(fitted.criteria) if fitted.criteria else ()
        return ReadOutput(identity, fitted, own)

    def _fit(self, given: Any) -> Output | str:
        if isinstance(given, str):
            return Output(CASE_ID, MODEL, None, 0, None, given, None, None, None, None)
        if not isinstance(given, Mapping):
            return f"found a value of type {type(given).__name__}, expected a text or a row with an output"
        defaults = {self._sources["case_id"]: CASE_ID, self._sources["model"]: MODEL}
        try:
            return self._fitter.fit(defaults | dict(given), "jsonl")
        except RecursionError:
            return "found too deep a nesting, expected fewer levels"


def refuse_misfits(found: Sequence[ReadOutput | str]) -> None:
    """Raise `OutputsError` with the reasons of all rows that do not fit."""
    faults = tuple(Fault("outputs", place, each) for place, each in enumerate(found, 1) if isinstance(each, str))
    if faults:
        raise OutputsError(faults)


def rows_of_batch(
    prompts: Sequence[Any] | None, completions: Sequence[Any], columns: Mapping[str, Any], sources: Mapping[str, str]
) -> Sequence[Given]:
    """Rows of a trainer's batch: its completions, prompts and the columns of its dataset.

    sources: as the column map of `RowReader`. Raises `InputError` if a column has another length.
    """
    count = len(completions)
    given = {name: values for name, values in columns.items() if name not in TRAINER_ARGUMENTS}
    lists = {name: values for name, values in given.items() if _is_column(values)}
    if prompts is not None:
        lists[sources.get("prompt", "prompt")] = [prompt_of(each) for each in prompts]
    for name, values in lists.items():
        if len(values) != count:
            raise InputError(name, counted(len(values), "value"), f"{count}, one for each completion")
    output = sources.get("output", "output")
    if not lists and all(isinstance(each, str) for each in completions):
        return list(completions)
    return [
        {name: values[place] for name, values in lists.items() if values[place] is not None}
        | {output: completion_text(completion)}
        for place, completion in enumerate(completions)
    ]


def completion_text(completion: Any) -> Any:
    """Text of a completion: itself, or the last message of the assistant in chat form; other values as they are."""
    if not isinstance(completion, list | tuple):
        return completion
    messages = [each for each in completion if isinstance(each, Mapping)]
    spoken = [each for each in messages if each.get("role", "assistant") == "assistant"]
    return message_text(spoken[-1].get("content")) if spoken else None


def message_text(content: Any) -> Any:
    """Text of a message: its content, or the text parts of it."""
    if not isinstance(content, list):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def prompt_of(prompt: Any) -> Any:
    """A prompt as a row has it: a text, or chat messages as plain values."""
    return [dict(each) for each in prompt] if isinstance(prompt, list | tuple) else prompt


def _is_column(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)
