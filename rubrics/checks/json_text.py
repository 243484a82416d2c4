"""Reading a model's output as JSON: strict, and never a crash."""

import json
import re
from typing import Any, NoReturn

MOST_LEVELS = 200
MOST_INTEGER_DIGITS = 300  # what a float can stand in for; Python itself refuses to read a few thousand
STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')


class NotJson(ValueError):
    """A text is not JSON; the message gives the place and the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class _ConstantFound(Exception):
    """JSON has no NaN and no Infinity, though Python's reader takes them."""


def parse_json(text: str) -> Any:
    """Read the whole text as JSON; JSON's own whitespace may surround it.

    NaN and Infinity are refused, and more than `MOST_LEVELS` levels of nesting too. An integer of more than
    `MOST_INTEGER_DIGITS` digits is read as a float. Raises `NotJson`.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(f"line {error.lineno} column {error.colno}: {error.msg}") from None
    except _ConstantFound as error:
        raise NotJson(_constant_fault(text, str(error))) from None
    except RecursionError:
        raise NotJson(_nesting_fault()) from None
    # Python's own limit depends on how deep the caller stands, and a verdict must not.
    if text.count("[") + text.count("{") > MOST_LEVELS and _count_levels(value) > MOST_LEVELS:
        raise NotJson(_nesting_fault())
    return value


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MOST_INTEGER_DIGITS else float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantFound(name)


_DECODER = json.JSONDecoder(parse_int=_read_integer, parse_constant=_refuse_constant)


def _constant_fault(text: str, name: str) -> str:
    """Place the constant: up to it the text is JSON, so the first one outside a string is it."""
    matches = STRING_OR_CONSTANT.finditer(text)
    place = next((match.start() for match in matches if match[0] == name), 0)
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return f"line {line} column {column}: {name} is not JSON"


def _nesting_fault() -> str:
    return f"nested too deeply, at most {MOST_LEVELS} levels are read"


def _count_levels(value: Any) -> int:
    """How deep lists and objects stand in one another: 0 for a bare value."""
    level_count, level = 0, [value]
    while containers := [entry for entry in level if isinstance(entry, list | dict)]:
        level_count += 1
        level = [child for entry in containers for child in (entry.values() if isinstance(entry, dict) else entry)]
    return level_count
