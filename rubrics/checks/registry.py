"""The checks by name: a vectorised function over a shard's columns, and the settings it takes."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError


class CheckSettings(BaseModel):
    """The base of every check's settings: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class CheckVerdicts:
    """What a check found. All arrays: (output,).

    is_passed: bool, null where the check can't tell (`reasons` says why). evidence: the count against the bound, the
    missing word, the place; null where there is nothing to add.
    """

    is_passed: pa.BooleanArray
    evidence: pa.StringArray
    reasons: pa.StringArray | None = None


CheckFunction = Callable[[pa.Table, Any], CheckVerdicts]


@dataclass(frozen=True, slots=True)
class Check:
    """A registered check. columns: those of the shard that it reads."""

    name: str
    summary: str
    settings_model: type[CheckSettings]
    function: CheckFunction
    columns: tuple[str, ...] = ("output",)


_CHECKS: dict[str, Check] = {}


def register_check(
    name: str, settings_model: type[CheckSettings], columns: tuple[str, ...] = ("output",)
) -> Callable[[CheckFunction], CheckFunction]:
    """Register the decorated function under `name`; its docstring's first line is the check's summary."""

    def register(function: CheckFunction) -> CheckFunction:
        summary = (function.__doc__ or "").partition("\n")[0]
        _CHECKS[name] = Check(name, summary, settings_model, function, columns)
        return function

    return register


def check_names() -> tuple[str, ...]:
    """All registered names, sorted."""
    return tuple(sorted(_CHECKS))


def find_check(name: str) -> Check:
    """The check of that name. Raises `KeyError` whose text offers the nearest names."""
    if name in _CHECKS:
        return _CHECKS[name]
    near = difflib.get_close_matches(name, _CHECKS, n=1) or [", ".join(check_names())]
    raise KeyError(f"found the check {name!r}, expected a known one: {near[0]}")


def read_settings(check: Check, settings: dict[str, Any]) -> CheckSettings:
    """Validate a rubric's settings for a check. Raises `ValidationError` with every fault."""
    return check.settings_model.model_validate(settings)


__all__ = [
    "Check",
    "CheckSettings",
    "CheckVerdicts",
    "ValidationError",
    "check_names",
    "find_check",
    "read_settings",
    "register_check",
]
