"""Errors for a Python caller, which name the parameter `budget_usd` in place of the option `--budget-usd`."""

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
    """Decorate a public function so that gradebook's errors name parameters, not options."""

    @wraps(function)
    def call(*values: Given.args, **keywords: Given.kwargs) -> Returned:
        try:
            return function(*values, **keywords)
        except GradebookError as error:
            error.args = _worded(error.args)
            for name, value in vars(error).items():
                setattr(error, name, _worded(value))
            raise

    return call


def made_in_parameters(kind: type[Made]) -> type[Made]:
    """Decorate a public class so that errors of `kind(...)` name parameters, not options."""
    setattr(kind, "__init__", in_parameters(kind.__init__))  # noqa: B010 - mypy takes no assignment of it
    return kind


def _worded(value: Any) -> Any:
    if isinstance(value, str):
        segments = value.split("`")  # every second segment is in backticks; a whole command keeps its options
        return "`".join(
            segment if index % 2 and " --" in segment else _parameters(segment)
            for index, segment in enumerate(segments)
        )
    if isinstance(value, tuple):
        return tuple(map(_worded, value))
    return replace(value, message=_worded(value.message)) if isinstance(value, Fault) else value


def _parameters(text: str) -> str:
    text = _MAP.sub(lambda match: f"column_map={{{match[1]!r}: {match[2]!r}}}", text)
    return _OPTION.sub(lambda match: _NAMES.get(match[1], match[1].replace("-", "_")), text)
