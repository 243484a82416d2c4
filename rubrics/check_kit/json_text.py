"""Strict JSON from a model's output, without crashes."""

import json
import re
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn

from gradebook.rubrics.check_kit.stack import on_a_full_stack

SPACES = r"[ \t\r\n]*+"
OPEN_STRING = r'"(?:[^"\\\n]++|\\.)*+'  # up to its closing quotation mark or the end of the line
BEGUN = re.compile(rf'(?:\[{SPACES})*+\{{{SPACES}{OPEN_STRING}"{SPACES}:')
TOKEN = re.compile(rf'{OPEN_STRING}"?|[{{}}\[\]]|^ {{0,3}}```', re.MULTILINE)


class BrokenJson:
    """Finder of the ends of broken JSON in one text. Brackets are scanned on first use."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: dict[int, int] | None = None

    def end(self, start: int, fault: int) -> int:
        """End of the broken JSON that starts at `start`.

        That is the closing bracket; without one, the end of the code fence or of the text. If the text at `start` is
        not the beginning of an object with a key, it ends at `fault`. Calls for one text must have ascending starts.
        """
        if BEGUN.match(self._text, start) is None:
            return fault
        if self._ends is None:
            self._ends = _bracket_ends(self._text, start)
        return max(self._ends.get(start, fault), fault)


def _bracket_ends(text: str, start: int) -> dict[int, int]:
    """Map the position of each opening bracket outside strings to the end of its content."""
    end_by_start: dict[int, int] = {}
    open_starts: list[int] = []
    for token in TOKEN.finditer(text, start):
        mark = token[0]
        if mark in "{[":
            open_starts.append(token.start())
        elif mark in "}]":
            if open_starts:
                end_by_start[open_starts.pop()] = token.end()
        elif not mark.startswith('"'):
            end_by_start |= dict.fromkeys(open_starts, token.start())
            open_starts.clear()
    return end_by_start | dict.fromkeys(open_starts, len(text))


MOST_LEVELS = 200
MOST_INTEGER_DIGITS = 300  # longer integers become floats; Python refuses a few thousand digits
MOST_FOUND = 50_000  # objects and arrays in one text
MOST_BROKEN = 10_000  # places that look like the start of JSON but are not
STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')
START = re.compile(r'\{[ \t\r\n]*["}]|\[[ \t\r\n]*["{\[\]\-0-9tfn]')

Extract = Literal["whole", "found"]


class NotJson(ValueError):
    """The text is not JSON; the message gives the place and the reason."""


class TooManyBrackets(Exception):
    """The text has too many objects, arrays or unrelated brackets."""


class _ConstantFound(Exception):
    """NaN or Infinity, which Python's decoder accepts but JSON does not have."""


class FoundJson(NamedTuple):
    """JSON found in a text. fault: place and reason of the first broken part."""

    objects: list[dict[str, Any]]
    arrays: list[list[Any]]
    fault: str | None


def parse_json(text: str) -> Any:
    """Parse the whole text as JSON; JSON whitespace may surround it.

    Refuses NaN, Infinity and more than `MOST_LEVELS` levels of nesting. An integer of more than `MOST_INTEGER_DIGITS`
    digits becomes a float. Raises `NotJson`.
    """
    try:
        value = on_a_full_stack(partial(_DECODER.decode, text))
    except json.JSONDecodeError as error:
        raise NotJson(_syntax_fault(error)) from None
    except _ConstantFound as error:
        raise NotJson(_constant_fault(text, str(error))) from None
    except RecursionError:
        raise NotJson(_nesting_fault()) from None
    # Python's own limit depends on the depth of the call stack; a verdict must not depend on it.
    if text.count("[") + text.count("{") > MOST_LEVELS and count_levels(value) > MOST_LEVELS:
        raise NotJson(_nesting_fault())
    return value


def find_json(text: str) -> FoundJson:
    """Find the outermost JSON objects and arrays in a text, in order.

    Broken JSON is skipped with all its content. Raises `NotJson` for deep nesting, and `TooManyBrackets`.
    """
    try:
        return on_a_full_stack(partial(_find_json, text))
    except RecursionError:
        raise NotJson(_nesting_fault()) from None


def extract_json(text: str, extract: Extract) -> Any:
    """JSON of a text: the whole text, or the only JSON object found in it, or else the only array.

    Raises `NotJson` and `TooManyBrackets`.
    """
    if extract == "whole":
        try:
            return parse_json(text)
        except NotJson as error:
            raise NotJson(f"not JSON: {error}") from None
    found_json = find_json(text)
    values, name = (found_json.objects, "object") if found_json.objects else (found_json.arrays, "array")
    if not values:
        raise NotJson("found no JSON object or array" + (f": {found_json.fault}" if found_json.fault else ""))
    if len(values) > 1:
        raise NotJson(f"found {len(values)} JSON {name}s, expected one")
    return values[0]


def _find_json(text: str) -> FoundJson:
    constants: list[str] = []
    # Constants are recorded, not raised: after an exception the search would restart inside the enclosing value.
    decoder = json.JSONDecoder(parse_int=_read_integer, parse_constant=constants.append)
    found_json, broken = FoundJson([], [], None), BrokenJson(text)
    position = found_count = broken_count = 0
    while (start := START.search(text, position)) is not None:
        constants.clear()
        try:
            value, position = decoder.raw_decode(text, start.start())
            fault = f"{constants[0]} is not JSON" if constants else None
        except json.JSONDecodeError as error:
            end = broken.end(start.start(), error.pos)
            value, position, fault = None, max(end, start.start() + 1), _syntax_fault(error)
        if fault is None:
            found_count += 1
            _collect(value, found_json)
        else:
            broken_count += 1
            found_json = found_json._replace(fault=found_json.fault or fault)
        if found_count > MOST_FOUND or broken_count > MOST_BROKEN:
            raise TooManyBrackets(f"too many brackets: more than {found_count + broken_count - 1:,} starts of JSON")
    return found_json


def _collect(value: Any, found_json: FoundJson) -> None:
    if count_levels(value) > MOST_LEVELS:
        raise NotJson(_nesting_fault())
    if isinstance(value, dict):
        found_json.objects.append(value)
    else:
        found_json.arrays.append(value)


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MOST_INTEGER_DIGITS else float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantFound(name)


_DECODER = json.JSONDecoder(parse_int=_read_integer, parse_constant=_refuse_constant)


def _syntax_fault(error: json.JSONDecodeError) -> str:
    return f"line {error.lineno} column {error.colno}: {error.msg}"


def _constant_fault(text: str, name: str) -> str:
    """Place of the constant. The text before it is JSON, so it is the first constant outside a string."""
    matches = STRING_OR_CONSTANT.finditer(text)
    position = next((match.start() for match in matches if match[0] == name), 0)
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line} column {column}: {name} is not JSON"


def _nesting_fault() -> str:
    return f"nested too deeply, at most {MOST_LEVELS} levels are read"


def count_levels(value: Any) -> int:
    """Nesting depth of lists and objects; 0 for a bare value."""
    level_count, level = 0, [value]
    while containers := [entry for entry in level if isinstance(entry, list | dict)]:
        level_count += 1
        level = [child for entry in containers for child in (entry.values() if isinstance(entry, dict) else entry)]
    return level_count
