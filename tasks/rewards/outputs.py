"""Single outputs: texts, rows and completions of a caller read as outputs, and the outcome of scoring one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from gradebook.rubrics.checks.conditions import apply_condition, condition_columns
from gradebook.rubrics.files.case_criteria import read_case_criteria_text
from gradebook.rubrics.model.errors import Fault, InputError, OutputsError
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, Output, output_id, shard_column, stored_output
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric
from gradebook.rubrics.model.scores import Reward
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.case_criteria import taken_ids
from gradebook.tasks.datasets.row_parser import RowFitter

_STORED = "select * from outputs where list_contains(?, output_id)"
CASE_ID, MODEL = "text", "artifact"  # defaults of a plain text
# Arguments that TRL passes beside the columns of its dataset.
TRAINER_ARGUMENTS = frozenset({"completion_ids", "prompt_ids", "trainer_state", "log_extra", "log_metric"})

Given = str | Mapping[str, Any]  # a text, or a row of outputs


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """An output with its id and its own criteria. unmet: reasons of the rubric's criteria that do not apply, by id."""

    output_id: str
    output: Output
    own: tuple[CaseCriterion, ...] = ()
    unmet: Mapping[str, str] = field(default_factory=dict)


def with_unmet(rubric: Rubric, rows: Sequence[ReadOutput]) -> list[ReadOutput]:
    """Outputs with the criteria of a rubric whose condition does not hold. Raises as `apply_condition`."""
    unmet: list[dict[str, str]] = [{} for _ in rows]
    for criterion in rubric.conditional_criteria if rows else ():
        names = dict.fromkeys(("case_id", *condition_columns(criterion)))
        columns = {name: shard_column(name, [getattr(row.output, name) for row in rows]) for name in names}
        reasons = apply_condition(criterion, pa.table(columns)).reasons.to_pylist()
        for of_row, reason in zip(unmet, reasons, strict=True):
            of_row.update({} if reason is None else {criterion.id: reason})
    return [replace(row, unmet=of_row) if of_row else row for row, of_row in zip(rows, unmet, strict=True)]


class RowReader:
    """Reader of a caller's outputs, by the rules for the rows of a file.

    column_map: gradebook's column name -> the caller's, as `--map`.
    """

    def __init__(self, rubric: Rubric, column_map: Mapping[str, str], *, is_unscored_allowed: bool = False) -> None:
        self._rubric = rubric
        if unknown := [name for name in column_map if name not in OUTPUT_COLUMNS]:
            raise InputError("column_map", repr(unknown[0]), f"one of {', '.join(OUTPUT_COLUMNS)}")
        self._fitter = RowFitter(column_map, taken_ids(rubric), is_unscored_allowed=is_unscored_allowed)
        self._sources = {column: column_map.get(column, column) for column in OUTPUT_COLUMNS}

    def read(self, outputs: Iterable[Given]) -> list[ReadOutput]:
        """Read texts and rows. Raises `OutputsError` with all invalid rows, whose numbers count from 1."""
        rows = self.read_each(outputs)
        refuse_misfits(rows)
        return [row for row in rows if isinstance(row, ReadOutput)]

    def read_each(self, outputs: Iterable[Given]) -> list[ReadOutput | str]:
        """Read texts and rows; the result of an invalid row is the reason."""
        rows = [self._read(output) for output in outputs]
        return [self._with_unmet(row) for row in rows] if self._rubric.conditional_criteria else rows

    def _with_unmet(self, row: ReadOutput | str) -> ReadOutput | str:
        try:
            return with_unmet(self._rubric, [row])[0] if isinstance(row, ReadOutput) else row
        except InputError as error:
            return str(error)

    def _read(self, output: Given) -> ReadOutput | str:
        fitted = self._fit(output)
        if isinstance(fitted, str):
            return fitted
        try:
            id_of_output = output_id(fitted)
        except UnicodeEncodeError:
            return "found a text with half of a surrogate pair, expected Unicode text"
        criteria = read_case_criteria_text(fitted.criteria) if fitted.criteria else ()
        return ReadOutput(id_of_output, fitted, criteria)

    def _fit(self, value: Any) -> Output | str:
        if isinstance(value, str):
            return Output(CASE_ID, MODEL, None, 0, None, value, None, None, None, None)
        if not isinstance(value, Mapping):
            return f"found a value of type {type(value).__name__}, expected a text or a row with an output"
        defaults = {self._sources["case_id"]: CASE_ID, self._sources["model"]: MODEL}
        try:
            return self._fitter.fit(defaults | dict(value), "jsonl")
        except RecursionError:
            return "found too deep a nesting, expected fewer levels"


def stored_outputs(connection: duckdb.DuckDBPyConnection, output_ids: Sequence[str]) -> list[ReadOutput]:
    """Outputs of a lake in the order of output_ids, without outputs whose content does not match their id."""
    rows = connection.execute(_STORED, [[*output_ids]]).to_arrow_table().to_pylist()
    outputs = {row["output_id"]: stored_output(row) for row in rows}
    return [
        ReadOutput(name, outputs[name]) for name in output_ids if name in outputs and output_id(outputs[name]) == name
    ]


def refuse_misfits(rows: Sequence[ReadOutput | str]) -> None:
    """Raise `OutputsError` with the reasons of all rows that do not fit."""
    faults = tuple(Fault("outputs", line, row) for line, row in enumerate(rows, 1) if isinstance(row, str))
    if faults:
        raise OutputsError(faults)


def rows_of_batch(
    prompts: Sequence[Any] | None, completions: Sequence[Any], columns: Mapping[str, Any], sources: Mapping[str, str]
) -> Sequence[Given]:
    """Rows of a trainer's batch: its completions, prompts and the columns of its dataset.

    sources: as the column map of `RowReader`. Raises `InputError` if a column has another length.
    """
    count = len(completions)
    dataset_columns = {name: values for name, values in columns.items() if name not in TRAINER_ARGUMENTS}
    lists = {name: values for name, values in dataset_columns.items() if _is_column(values)}
    if prompts is not None:
        lists[sources.get("prompt", "prompt")] = [prompt_of(prompt) for prompt in prompts]
    for name, values in lists.items():
        if len(values) != count:
            raise InputError(name, counted(len(values), "value"), f"{count}, one for each completion")
    output = sources.get("output", "output")
    if not lists and all(isinstance(completion, str) for completion in completions):
        return list(completions)
    return [
        {name: values[index] for name, values in lists.items() if values[index] is not None}
        | {output: completion_text(completion)}
        for index, completion in enumerate(completions)
    ]


def completion_text(completion: Any) -> Any:
    """Text of a completion: the text itself, or the assistant's last message of a chat; other values unchanged."""
    if not isinstance(completion, list | tuple):
        return completion
    messages = [message for message in completion if isinstance(message, Mapping)]
    assistant_messages = [message for message in messages if message.get("role", "assistant") == "assistant"]
    return message_text(assistant_messages[-1].get("content")) if assistant_messages else None


def message_text(content: Any) -> Any:
    """Text of a message: its content, or the joined text parts of its content."""
    if not isinstance(content, list):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def prompt_of(prompt: Any) -> Any:
    """A prompt as a row has it: a text, or chat messages as plain values."""
    return [dict(message) for message in prompt] if isinstance(prompt, list | tuple) else prompt


def _is_column(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


_TOLERANCE = 1e-9  # rounding error of a sum of floats, as in a run
_WIDEST = 60


class Verdict(NamedTuple):
    """Verdict on one output and criterion, as columns of `VERDICT_SCHEMA`."""

    score: float | None
    level_id: str | None
    reason: str | None
    evidence: str | None
    rationale: str | None = None


class CriterionScore(NamedTuple):
    """Verdict on one criterion.

    score: 0..1, None where unscored; `reason` says why. needs: least score that meets the criterion; None without a
    threshold.
    """

    criterion_id: str
    description: str
    method: str
    score: float | None
    level_id: str | None = None
    reason: str | None = None
    evidence: str | None = None
    rationale: str | None = None
    weight: float = 1.0
    is_gate: bool = False
    needs: float | None = None
    is_rewarded: bool = True

    @property
    def is_met(self) -> bool | None:
        """Whether the score reaches `needs`; None if it is unknown or nothing is needed."""
        if self.score is None or self.needs is None:
            return None
        return self.score >= self.needs - _TOLERANCE


_VERDICT = CriterionScore._fields.index("score")  # from here, the fields of a verdict


@dataclass(frozen=True)
class Score:
    """Score of one output: `score` in 0..1, None where a weighted criterion is unscored, with its bounds.

    unscored_reason: why there is no score, as in the table `output_scores`; None where there is one.
    reward: the score for a trainer, see `Scorer`; None if no criterion is rewarded. is_passed: None where
    unknown, or where the rubric requires nothing.
    """

    output_id: str
    score: float | None
    score_low: float | None
    score_high: float | None
    is_passed: bool | None
    failed_gates: tuple[str, ...]
    unscored_reason: str | None
    reward: Reward | None
    pass_threshold: float | None
    _parts: Sequence[CriterionScore] = field(repr=False)  # one per criterion, without a verdict
    _verdicts: Sequence[Verdict] = field(repr=False)

    @cached_property
    def criteria(self) -> Mapping[str, CriterionScore]:
        """Verdicts by criterion id, in the rubric's order, then on the output's own criteria."""
        return {
            unscored.criterion_id: CriterionScore._make(
                (*unscored[:_VERDICT], *verdict, *unscored[_VERDICT + len(verdict) :])
            )
            for unscored, verdict in zip(self._parts, self._verdicts, strict=True)
        }

    @property
    def unscored(self) -> dict[str, str]:
        """Reasons of the criteria without a score, by criterion id."""
        return {
            criterion.criterion_id: criterion.reason or "unknown"
            for criterion in self.criteria.values()
            if criterion.score is None
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "output_id": self.output_id,
            "score": self.score,
            "score_low": self.score_low,
            "score_high": self.score_high,
            "is_passed": self.is_passed,
            "failed_gates": list(self.failed_gates),
            "unscored_reason": self.unscored_reason,
            "reward": None if self.reward is None else self.reward.value,
            "criteria": [criterion._asdict() for criterion in self.criteria.values()],
        }

    def __str__(self) -> str:
        """The score, then its criteria as a table."""
        needed = "" if self.pass_threshold is None else f", needs {self.pass_threshold:g}"
        state = {True: "passed", False: "not passed", None: "no verdict"}[self.is_passed]
        why = f" ({self.unscored_reason})" if self.unscored_reason else ""
        gates = f"; failed gates: {', '.join(self.failed_gates)}" if self.failed_gates else ""
        return "\n".join([f"score {_format_score(self.score)}{why}{needed}: {state}{gates}", *self._table()])

    def _table(self) -> list[str]:
        rows = [("criterion", "score", "needs", "level", "why")]
        rows += [
            (
                criterion.criterion_id,
                _format_score(criterion.score),
                "" if criterion.needs is None else f"{criterion.needs:g}",
                criterion.level_id or "",
                _cut(criterion.reason or criterion.rationale or criterion.evidence or ""),
            )
            for criterion in self.criteria.values()
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _format_score(score: float | None) -> str:
    return "unscored" if score is None else f"{score:.3f}".rstrip("0").rstrip(".")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."
