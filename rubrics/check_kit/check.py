"""Check: a vectorised function over a shard's columns, with its settings and documentation.

`gather_rows` combines the findings of a check that reads one output at a time. `example_shard` is a shard of one row,
for examples and for trying out a check.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import InitErrorDetails

from gradebook.rubrics.check_kit.columns import cut_text
from gradebook.rubrics.model.outputs import shard_column
from gradebook.rubrics.model.steps import StepRow

Cost = Literal["columns", "rows", "heavy"]
COSTS: Mapping[Cost, str] = MappingProxyType(
    {
        "columns": "Arrow and numpy over the whole column, at memory speed",
        "rows": "Python, one output at a time",
        "heavy": "a parser, a model or a file for each output",
    }
)


_FILE = object()  # marks a setting that names a file
FileName = Annotated[str, Field(min_length=1), _FILE]  # path below the folder of the rubric that has the setting


class CheckSettings(BaseModel):
    """Base of every check's settings: frozen, refuses unknown keys. The docstring of a field is its description."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class CheckVerdicts:
    """Verdicts of a check. All arrays: (output,).

    is_passed: bool, null if the check cannot decide (`reasons` gives the reason). evidence: the count against the
    bound, the missing word or the place; null if there is nothing to add. level_ids: level of the criterion, for checks
    that give levels; null: a pass is the highest level, a fail the lowest.
    """

    is_passed: pa.BooleanArray
    evidence: pa.StringArray
    reasons: pa.StringArray | None = None
    level_ids: pa.StringArray | None = None


CheckFunction = Callable[[pa.Table, Any], CheckVerdicts]


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust panicked: pyo3 raises this as a `BaseException`, which no import names."""
    return type(error).__module__ == "pyo3_runtime"


@dataclass(frozen=True, slots=True)
class Example:
    """Example of a check: an output and the check's verdict.

    is_passed: None if the check cannot decide. others: further columns of the row that the check reads.
    """

    output: str
    is_passed: bool | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """Registered check.

    columns: the shard's columns that it reads. cost: a key of `COSTS`.
    """

    name: str
    summary: str
    details: str
    settings_model: type[CheckSettings]
    function: CheckFunction
    columns: tuple[str, ...]
    cost: Cost
    examples: tuple[Example, ...]


REGISTERED: dict[str, Check] = {}  # name -> check; `rubrics.checks.registry` imports the modules that register checks


def register_check(
    name: str,
    settings_model: type[CheckSettings],
    columns: tuple[str, ...] = ("output",),
    *,
    cost: Cost = "columns",
    examples: tuple[Example, ...] = (),
) -> Callable[[CheckFunction], CheckFunction]:
    """Register the decorated function under a name.

    The first line of its docstring becomes the check's summary, the rest its details. Raises `ValueError` if the name
    is taken.
    """

    def register(function: CheckFunction) -> CheckFunction:
        if name in REGISTERED:
            raise ValueError(f"found a second check {name!r}, expected each name once")
        summary, _, details = inspect.cleandoc(function.__doc__ or "").partition("\n")
        REGISTERED[name] = Check(name, summary, details.strip(), settings_model, function, columns, cost, examples)
        return function

    return register


def file_settings(check: Check) -> tuple[str, ...]:
    """Names of the settings that name a file."""
    return tuple(name for name, field in check.settings_model.model_fields.items() if _FILE in field.metadata)


def read_settings(check: Check, settings: Mapping[str, Any], folder: Path | None = None) -> CheckSettings:
    """Validate a rubric's settings for a check. Raises `ValidationError` with every fault, each reported once.

    folder: location of the files that settings may name; None: no files, as for rows.
    """
    try:
        return check.settings_model.model_validate(settings, context=folder)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # pydantic counts only the valid entries of a list, so a list with an invalid entry is reported as too short as
        # well.
        reported = [
            fault
            for fault in faults
            if fault["type"] != "too_short" or len(fault["input"]) < fault["ctx"]["min_length"]
        ]
        if len(reported) == len(faults):
            raise
        details = [
            InitErrorDetails(type=fault["type"], loc=fault["loc"], input=fault["input"], ctx=fault.get("ctx", {}))
            for fault in reported
        ]
        raise ValidationError.from_exception_data(error.title, details) from None


class RowFinding(NamedTuple):
    """Finding of a check in one output. is_passed: None if it cannot decide; `reason` gives the cause."""

    is_passed: bool | None
    evidence: str | None = None
    reason: str | None = None


PASSED = RowFinding(True)


def gather_rows(findings: Iterable[RowFinding]) -> CheckVerdicts:
    """Combine the findings of a shard's rows, in order. Evidence and reasons are cut to their maximum length."""
    rows = list(findings)
    if len(rows) == 1:
        return _gather_one(*rows)
    return CheckVerdicts(
        pa.array([row.is_passed for row in rows], pa.bool_()),
        _gather_texts([row.evidence for row in rows]),
        _gather_texts([row.reason for row in rows]),
    )


def _gather_one(row: RowFinding) -> CheckVerdicts:
    """Verdicts of a single row, as per-case criteria need: building the arrays anew would be half of their time."""
    verdict = _verdict_alone(row.is_passed)
    if row.evidence is row.reason is None:
        return verdict
    return CheckVerdicts(
        verdict.is_passed,
        verdict.evidence if row.evidence is None else _gather_texts([row.evidence]),
        verdict.reasons if row.reason is None else _gather_texts([row.reason]),
    )


@cache
def _verdict_alone(is_passed: bool | None) -> CheckVerdicts:
    return CheckVerdicts(pa.array([is_passed], pa.bool_()), pa.nulls(1, pa.string()), pa.nulls(1, pa.string()))


def _gather_texts(texts: list[str | None]) -> pa.StringArray:
    if texts.count(None) == len(texts):
        return pa.nulls(len(texts), pa.string())  # several times faster than an array of None
    return pa.array([_cut(text) for text in texts], pa.string())


def _cut(text: str | None) -> str | None:
    return None if text is None else cut_text(text)


MADE_COLUMNS = {"audio": pa.binary(), "audio_fault": pa.string()}  # derived from an output when a check asks for them


def example_shard(check: Check, example: Example) -> pa.Table:
    """One-row shard with the columns that the check reads; columns missing from the example are null.

    `context` may be a text or a list of texts, `metadata` a mapping, `steps` as in a row.
    """
    columns = {"output": example.output, **example.others}
    return pa.table({name: _column(name, _stored(name, columns.get(name))) for name in check.columns})


def _column(name: str, value: Any) -> pa.Array:
    return pa.array([value], MADE_COLUMNS[name]) if name in MADE_COLUMNS else shard_column(name, [value])


def _stored(name: str, value: Any) -> Any:
    if name == "context" and isinstance(value, str):
        return [value]
    if name == "steps" and value is not None:
        return [StepRow.model_validate(step).as_step() for step in value]
    return json.dumps(value) if name == "metadata" and value is not None else value
