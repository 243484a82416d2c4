"""The check that an output's JSON is the JSON it was meant to be."""

import json
import math
from collections.abc import Collection, Iterator
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, field_validator

from rubrics.checks.columns import text_column
from rubrics.checks.evidence import EXCERPT_CHARACTERS, cut_text
from rubrics.checks.registry import CheckSettings, CheckVerdicts, Example, register_check
from rubrics.checks.rows import RowFinding, gather_rows
from rubrics.checks.structured.json_text import Extract, NotJson, TooManyBrackets, extract_json, parse_json
from rubrics.checks.structured.stack import on_a_full_stack

Path = tuple[str | int, ...]
SHOWN_LEVELS = 8  # of a path
ROUNDING = 1e-15  # what the difference of two floats can be off, as a share of the larger one


class JsonEqualsSettings(CheckSettings):
    """What the JSON is compared with, and what does not count."""

    value: Any = None
    """the JSON that is expected, in the place of the row's reference"""
    extract: Extract = "whole"
    """`whole`: the output is the JSON; `found`: it holds one JSON object among other text, or with no object one
    array"""
    ignore_order: bool = False
    """lists are equal in whatever order their entries stand"""
    ignore_keys: tuple[str, ...] = ()
    """keys that do not count, in any object at any depth"""
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """how far two numbers may be apart"""

    @field_validator("value")
    @classmethod
    def _value_is_json(cls, value: Any) -> Any:
        try:
            json.dumps(read := parse_json(json.dumps(value, allow_nan=False)), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"found what JSON can't hold ({error}), expected JSON") from None
        return read


class _TooLarge(Exception):
    """Two numbers are too large to be told apart."""

    def __str__(self) -> str:
        return "too large to compare: found two numbers beyond 1e308"


@register_check(
    "json_equals",
    JsonEqualsSettings,
    columns=("output", "reference"),
    cost="rows",
    examples=(
        Example('{"b": [1, 2], "a": 1.0}', True, others={"reference": '{"a": 1, "b": [1, 2]}'}),
        Example("[2, 1]", True, {"value": [1, 2], "ignore_order": True}),
        Example('{"a": 1}', False, others={"reference": '{"a": 2}'}),
        Example('{"a": 1}', None, others={"reference": None}),
    ),
)
def json_equals(shard: pa.Table, settings: JsonEqualsSettings) -> CheckVerdicts:
    """The output's JSON equals the row's reference, read as JSON, or the `value` of the settings.

    The order of keys never counts; 1 and 1.0 are equal, 1 and true are not. The evidence is the first path that
    differs. Of a key that an object has twice the last counts. A row without a reference stays unscored ("no
    reference"), and so does one whose reference is no JSON, or where two numbers beyond 1e308 stand against each
    other. With `ignore_order` and a `tolerance`, entries are paired after sorting, so that two lists of objects
    with nearly equal numbers can be paired otherwise than they should be.
    """
    outputs = text_column(shard, "output").to_pylist()
    if "value" in settings.model_fields_set:
        expected = _normalised(settings.value, settings)
        return gather_rows(_compared(output, expected, settings) for output in outputs)
    references = text_column(shard, "reference").to_pylist()
    return gather_rows(
        _against_reference(output, text, settings) for output, text in zip(outputs, references, strict=True)
    )


def _against_reference(output: str, reference: str | None, settings: JsonEqualsSettings) -> RowFinding:
    if reference is None:
        return RowFinding(None, reason="no reference")
    try:
        expected = _normalised(parse_json(reference), settings)
    except NotJson as error:
        return RowFinding(None, reason=f"the reference is not JSON: {error}")
    return _compared(output, expected, settings)


def _compared(output: str, expected: Any, settings: JsonEqualsSettings) -> RowFinding:
    try:
        found = _normalised(extract_json(output, settings.extract), settings)
        differ = partial(_differences, found, expected, settings.tolerance, ())
        difference = on_a_full_stack(lambda: next(differ(), None))
    except NotJson as error:
        return RowFinding(False, str(error))
    except (TooManyBrackets, _TooLarge) as error:
        return RowFinding(None, reason=str(error))
    return RowFinding(difference is None, difference)


def _normalised(value: Any, settings: JsonEqualsSettings) -> Any:
    """The value without the keys that do not count, and sorted where the order does not."""
    if settings.ignore_keys:
        value = on_a_full_stack(partial(_without_keys, value, frozenset(settings.ignore_keys)))
    if settings.ignore_order:
        _, value = on_a_full_stack(partial(_sorted, value))
    return value


def _without_keys(value: Any, keys: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_keys(entry, keys) for key, entry in value.items() if key not in keys}
    return [_without_keys(entry, keys) for entry in value] if isinstance(value, list) else value


def _sorted(value: Any) -> tuple[tuple[Any, ...], Any]:
    """A key by which values can be put in order, whatever they are, and the value with its lists in that order."""
    if isinstance(value, list):
        entries = sorted((_sorted(entry) for entry in value), key=lambda entry: entry[0])
        return (4, *(key for key, _ in entries)), [entry for _, entry in entries]
    if isinstance(value, dict):
        pairs = {key: _sorted(entry) for key, entry in value.items()}
        keys = sorted((key, sort_key) for key, (sort_key, _) in pairs.items())
        return (5, *keys), {key: entry for key, (_, entry) in pairs.items()}
    if value is None or isinstance(value, bool):
        return (0 if value is None else 1, bool(value)), value
    return (2 if isinstance(value, int | float) else 3, value), value


def _differences(found: Any, expected: Any, tolerance: float, path: Path) -> Iterator[str]:
    """Where the two differ, each with its path, in the order of what is expected."""
    if isinstance(found, dict) and isinstance(expected, dict):
        yield from _object_differences(found, expected, tolerance, path)
    elif isinstance(found, list) and isinstance(expected, list):
        for index, (mine, theirs) in enumerate(zip(found, expected, strict=False)):
            yield from _differences(mine, theirs, tolerance, (*path, index))
        if len(found) != len(expected):
            yield f"{_path_text(path)}: found {len(found)} entries, expected {len(expected)}"
    elif not _is_same(found, expected, tolerance):
        yield f"{_path_text(path)}: found {_shown(found)}, expected {_shown(expected)}"


def _object_differences(found: dict[str, Any], expected: dict[str, Any], tolerance: float, path: Path) -> Iterator[str]:
    for key, theirs in expected.items():
        if key in found:
            yield from _differences(found[key], theirs, tolerance, (*path, key))
        else:
            yield f"{_path_text((*path, key))}: missing, expected {_shown(theirs)}"
    for key, mine in found.items():
        if key not in expected:
            yield f"{_path_text((*path, key))}: found {_shown(mine)}, expected no such key"


def _is_same(found: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        if math.isinf(found) and found == expected:
            raise _TooLarge
        return found == expected or _is_near(found, expected, tolerance)
    return bool(found == expected)


def _is_near(found: float, expected: float, tolerance: float) -> bool:
    """Whether they are, as they are written: 1.1 is 0.1 from 1, though their floats are farther apart."""
    difference = abs(found - expected)
    rounding = max(abs(found), abs(expected)) * ROUNDING
    if math.isinf(difference) or abs(difference - tolerance) > rounding:
        return difference <= tolerance
    one, other, most = (Fraction(repr(number)) for number in (found, expected, tolerance))
    return abs(one - other) <= most


def _path_text(path: Path) -> str:
    """The path as JSONPath has it, the middle left out where it is long."""
    parts = [f"[{part}]" if isinstance(part, int) else _key_text(part) for part in path]
    if len(parts) > SHOWN_LEVELS:
        parts = [*parts[: SHOWN_LEVELS // 2], "…", *parts[-SHOWN_LEVELS // 2 :]]
    return "$" + "".join(parts)


def _key_text(key: str) -> str:
    return f".{key}" if key.isidentifier() and len(key) <= EXCERPT_CHARACTERS else f"[{_shown(key)}]"


def _shown(value: Any) -> str:
    return cut_text(on_a_full_stack(partial(json.dumps, value, ensure_ascii=False)), EXCERPT_CHARACTERS)
