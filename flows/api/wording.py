"""Errors in the words of a Python caller: the parameter `budget_usd` in place of the option `--budget-usd`."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from gradebook.rubrics.model.errors import Fault, GradebookError

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Made = TypeVar("Made")
_MAP = re.compile(r"--map (\w+)=(\w+)")
_OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
_NAMES = {"map": "column_map", "from": "trace_format"}


def in_parameters(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Decorate a public function: the errors of gradebook that it raises name parameters."""

    @wraps(function)
    def call(*values: Given.args, **named: Given.kwargs) -> Returned:
        try:
            return function(*values, **named)
        except GradebookError as error:
            error.args = _worded(error.args)
            for name, value in vars(error).items():
                setattr(error, name, _worded(value))
            raise

    return call


def made_in_parameters(kind: type[Made]) -> type[Made]:
    """Decorate a public class, as `in_parameters`: the errors that `kind(...)` raises name parameters."""
    setattr(kind, "__init__", in_parameters(kind.__init__))  # noqa: B010 - mypy takes no assignment of it
    return kind


def _worded(value: Any) -> Any:
    if isinstance(value, str):
        parts = value.split("`")  # every second one is in backticks: a whole command keeps its options
        return "`".join(part if place % 2 and " --" in part else _parameters(part) for place, part in enumerate(parts))
    if isinstance(value, tuple):
        return tuple(map(_worded, value))
    return replace(value, message=_worded(value.message)) if isinstance(value, Fault) else value


def _parameters(text: str) -> str:
    text = _MAP.sub(lambda found: f"column_map={{{found[1]!r}: {found[2]!r}}}", text)
    return _OPTION.sub(lambda found: _NAMES.get(found[1], found[1].replace("-", "_")), text)
