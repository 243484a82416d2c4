"""Reading a model's output as JSON: strict, and never a crash."""

import json
import re
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn

from gradebook.rubrics.check_kit.broken_json import BrokenJson
from gradebook.rubrics.check_kit.stack import on_a_full_stack

MOST_LEVELS = 200
MOST_INTEGER_DIGITS = 300  # what a float can stand in for; Python itself refuses to read a few thousand
MOST_FOUND = 50_000  # objects and arrays in a text
MOST_BROKEN = 10_000  # places that look like the start of one and are none
STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')
START = re.compile(r'\{[ \t\r\n]*["}]|\[[ \t\r\n]*["{\[\]\-0-9tfn]')

Extract = Literal["whole", "found"]


class NotJson(ValueError):
    """A text is not JSON; the message gives the place and the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class TooManyBrackets(Exception):
    """A text has too many objects, arrays or brackets that start none; its text says so."""


class _ConstantFound(Exception):
    """JSON has no NaN and no Infinity, though Python's reader takes them."""


class FoundJson(NamedTuple):
    """What JSON a text holds. fault: the place and reason of the first that is broken."""

    objects: list[dict[str, Any]]
    arrays: list[list[Any]]
    fault: str | None


def parse_json(text: str) -> Any:
    """Read the whole text as JSON; JSON's own whitespace may surround it.

    NaN and Infinity are refused, and more than `MOST_LEVELS` levels of nesting too. An integer of more than
    `MOST_INTEGER_DIGITS` digits is read as a float. Raises `NotJson`.
    """
    try:
        value = on_a_full_stack(partial(_DECODER.decode, text))
    except json.JSONDecodeError as error:
        raise NotJson(_syntax_fault(error)) from None
    except _ConstantFound as error:
        raise NotJson(_constant_fault(text, str(error))) from None
    except RecursionError:
        raise NotJson(_nesting_fault()) from None
    # Python's own limit depends on how deep the caller stands, and a verdict must not.
    if text.count("[") + text.count("{") > MOST_LEVELS and count_levels(value) > MOST_LEVELS:
        raise NotJson(_nesting_fault())
    return value


def find_json(text: str) -> FoundJson:
    """The JSON objects and arrays that stand in a text, none of them within another, in order.

    What is broken is passed over, with all that it holds. Raises `NotJson` where one is nested too deeply, and
    `TooManyBrackets`.
    """
    try:
        return on_a_full_stack(partial(_find_json, text))
    except RecursionError:
        raise NotJson(_nesting_fault()) from None


def extract_json(text: str, extract: Extract) -> Any:
    """The JSON of a text: the whole of it, or the one found in it, an object before an array.

    Raises `NotJson` and `TooManyBrackets`.
    """
    if extract == "whole":
        try:
            return parse_json(text)
        except NotJson as error:
            raise NotJson(f"not JSON: {error}") from None
    found = find_json(text)
    values, name = (found.objects, "object") if found.objects else (found.arrays, "array")
    if not values:
        raise NotJson("found no JSON object or array" + (f": {found.fault}" if found.fault else ""))
    if len(values) > 1:
        raise NotJson(f"found {len(values)} JSON {name}s, expected one")
    return values[0]


def _find_json(text: str) -> FoundJson:
    constants: list[str] = []
    # A constant is noted, not raised at once: the reading would begin again within what holds it.
    decoder = json.JSONDecoder(parse_int=_read_integer, parse_constant=constants.append)
    found, broken = FoundJson([], [], None), BrokenJson(text)
    place = found_count = broken_count = 0
    while (start := START.search(text, place)) is not None:
        constants.clear()
        try:
            value, place = decoder.raw_decode(text, start.start())
            fault = f"{constants[0]} is not JSON" if constants else None
        except json.JSONDecodeError as error:
            end = broken.end(start.start(), error.pos)
            value, place, fault = None, max(end, start.start() + 1), _syntax_fault(error)
        if fault is None:
            found_count += 1
            _keep(value, found)
        else:
            broken_count += 1
            found = found._replace(fault=found.fault or fault)
        if found_count > MOST_FOUND or broken_count > MOST_BROKEN:
            raise TooManyBrackets(f"too many brackets: more than {found_count + broken_count - 1:,} starts of JSON")
    return found


def _keep(value: Any, found: FoundJson) -> None:
    if count_levels(value) > MOST_LEVELS:
        raise NotJson(_nesting_fault())
    if isinstance(value, dict):
        found.objects.append(value)
    else:
        found.arrays.append(value)


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MOST_INTEGER_DIGITS else float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantFound(name)


_DECODER = json.JSONDecoder(parse_int=_read_integer, parse_constant=_refuse_constant)


def _syntax_fault(error: json.JSONDecodeError) -> str:
    return f"line {error.lineno} column {error.colno}: {error.msg}"


def _constant_fault(text: str, name: str) -> str:
    """Place the constant: up to it the text is JSON, so the first one outside a string is it."""
    matches = STRING_OR_CONSTANT.finditer(text)
    place = next((match.start() for match in matches if match[0] == name), 0)
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return f"line {line} column {column}: {name} is not JSON"


def _nesting_fault() -> str:
    return f"nested too deeply, at most {MOST_LEVELS} levels are read"


def count_levels(value: Any) -> int:
    """How deep lists and objects stand in one another: 0 for a bare value."""
    level_count, level = 0, [value]
    while containers := [entry for entry in level if isinstance(entry, list | dict)]:
        level_count += 1
        level = [child for entry in containers for child in (entry.values() if isinstance(entry, dict) else entry)]
    return level_count
