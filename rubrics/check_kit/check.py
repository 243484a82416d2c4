"""Check: a vectorised function over a shard's columns, its settings, and how it is documented."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails

Cost = Literal["columns", "rows", "heavy"]
COSTS: Mapping[Cost, str] = MappingProxyType(
    {
        "columns": "Arrow and numpy over the whole column, at memory speed",
        "rows": "Python, an output at a time",
        "heavy": "a parser, a model or a file an output",
    }
)


class CheckSettings(BaseModel):
    """The base of every check's settings: frozen, unknown keys refused; the text under a field is its meaning."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class CheckVerdicts:
    """What a check found. All arrays: (output,).

    is_passed: bool, null where the check can't tell (`reasons` says why). evidence: the count against the bound, the
    missing word, the place; null where there is nothing to add. level_ids: the criterion's level where a check grades,
    null where pass or fail says it: a pass is the highest level and a fail the lowest.
    """

    is_passed: pa.BooleanArray
    evidence: pa.StringArray
    reasons: pa.StringArray | None = None
    level_ids: pa.StringArray | None = None


CheckFunction = Callable[[pa.Table, Any], CheckVerdicts]


@dataclass(frozen=True, slots=True)
class Example:
    """An output that shows what a check does.

    is_passed: None where it can't tell. others: the row's other columns that it reads.
    """

    output: str
    is_passed: bool | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """A registered check. columns: those of the shard that it reads. cost: a key of `COSTS`."""

    name: str
    summary: str
    details: str
    settings_model: type[CheckSettings]
    function: CheckFunction
    columns: tuple[str, ...]
    cost: Cost
    examples: tuple[Example, ...]


REGISTERED: dict[str, Check] = {}  # by name; `rubrics.checks.registry` imports their modules


def register_check(
    name: str,
    settings_model: type[CheckSettings],
    columns: tuple[str, ...] = ("output",),
    *,
    cost: Cost = "columns",
    examples: tuple[Example, ...] = (),
) -> Callable[[CheckFunction], CheckFunction]:
    """Register the decorated function; its docstring's first line is the check's summary, the rest its details.

    Raises `ValueError` where the name is taken.
    """

    def register(function: CheckFunction) -> CheckFunction:
        if name in REGISTERED:
            raise ValueError(f"found a second check {name!r}, expected each name once")
        summary, _, details = inspect.cleandoc(function.__doc__ or "").partition("\n")
        REGISTERED[name] = Check(name, summary, details.strip(), settings_model, function, columns, cost, examples)
        return function

    return register


def read_settings(check: Check, settings: Mapping[str, Any]) -> CheckSettings:
    """Validate a rubric's settings for a check. Raises `ValidationError` with every fault, each told once."""
    try:
        return check.settings_model.model_validate(settings)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # pydantic counts the right entries of a list alone, so it calls one with a wrong entry too short as well.
        told = [
            each for each in faults if each["type"] != "too_short" or len(each["input"]) < each["ctx"]["min_length"]
        ]
        if len(told) == len(faults):
            raise
        details = [
            InitErrorDetails(type=each["type"], loc=each["loc"], input=each["input"], ctx=each.get("ctx", {}))
            for each in told
        ]
        raise ValidationError.from_exception_data(error.title, details) from None
