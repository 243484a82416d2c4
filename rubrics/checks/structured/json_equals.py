"""Check that an output's JSON equals the expected JSON."""

import json
from collections.abc import Collection
from copy import deepcopy
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, field_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.json_text import Extract, NotJson, TooManyBrackets, extract_json, parse_json
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows
from gradebook.rubrics.check_kit.stack import on_a_full_stack
from gradebook.rubrics.checks.structured.json_differences import TooLarge, find_difference, put_in_order

MOST_CONTAINERS = 200_000  # lists and objects in one text


class ComparisonSettings(CheckSettings):
    """Differences of two JSON values to ignore."""

    ignore_order: bool = False
    """ignore the order of list entries"""
    ignore_keys: tuple[str, ...] = ()
    """keys to ignore, in any object at any depth"""
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """maximum difference of two numbers"""


class JsonEqualsSettings(ComparisonSettings):
    """Expected JSON, and differences to ignore."""

    value: Any = None
    """the expected JSON, instead of the row's reference"""
    extract: Extract = "whole"
    """`whole`: the output is the JSON; `found`: the output contains one JSON object among other text, or no object and
    one array"""

    @field_validator("value")
    @classmethod
    def _value_is_json(cls, value: Any) -> Any:
        try:
            json.dumps(read := parse_json(json.dumps(value, allow_nan=False)), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"found a value that JSON can't hold ({error}), expected JSON") from None
        return read


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

    The order of keys is ignored; 1 and 1.0 are equal, 1 and true are not. The evidence is the first path that differs.
    If an object has a key twice, the last one counts. A row stays unscored if it has no reference ("no reference"), if
    its reference is not JSON, if two numbers beyond 1e308 have to be compared, or if the output or the reference has
    more than 200,000 lists and objects ("too many lists and objects to compare"). With `ignore_order` and a
    `tolerance`, entries are paired after sorting, so two lists of objects with nearly equal numbers may be paired
    wrongly.
    """
    outputs = text_column(shard, "output").to_pylist()
    if "value" in settings.model_fields_set:
        expected = _normalised(on_a_full_stack(partial(deepcopy, settings.value)), settings)
        return gather_rows(_compared(output, expected, settings) for output in outputs)
    references = text_column(shard, "reference").to_pylist()
    return gather_rows(
        _against_reference(output, text, settings) for output, text in zip(outputs, references, strict=True)
    )


def _against_reference(output: str, reference: str | None, settings: JsonEqualsSettings) -> RowFinding:
    if reference is None:
        return RowFinding(None, reason="no reference")
    if (fault := size_fault(reference, "the reference")) is not None:
        return RowFinding(None, reason=fault)
    try:
        expected = _normalised(parse_json(reference), settings)
    except NotJson as error:
        return RowFinding(None, reason=f"the reference is not JSON: {error}")
    return _compared(output, expected, settings)


def _compared(output: str, expected: Any, settings: JsonEqualsSettings) -> RowFinding:
    if (fault := size_fault(output, "the output")) is not None:
        return RowFinding(None, reason=fault)
    try:
        found = extract_json(output, settings.extract)
    except NotJson as error:
        return RowFinding(False, str(error))
    except TooManyBrackets as error:
        return RowFinding(None, reason=str(error))
    return _differing(_normalised(found, settings), expected, settings)


def compare_values(found: Any, expected: Any, settings: ComparisonSettings) -> RowFinding:
    """Compare two JSON values; the evidence is the first path that differs. Both may be put in order in place."""
    return _differing(_normalised(found, settings), _normalised(expected, settings), settings)


def _differing(found: Any, expected: Any, settings: ComparisonSettings) -> RowFinding:
    try:
        difference = on_a_full_stack(partial(find_difference, found, expected, settings.tolerance))
    except TooLarge as error:
        return RowFinding(None, reason=str(error))
    return RowFinding(difference is None, difference)


def size_fault(text: str, name: str) -> str | None:
    """Reason why a text takes too long to compare; None if it does not."""
    count = text.count("[") + text.count("{")
    if count <= MOST_CONTAINERS:
        return None
    return f"too many lists and objects to compare: found {count} opening brackets in {name}, at most {MOST_CONTAINERS}"


def _normalised(value: Any, settings: ComparisonSettings) -> Any:
    """Remove ignored keys, and sort the value's lists if their order is ignored."""
    if settings.ignore_keys:
        value = on_a_full_stack(partial(_without_keys, value, frozenset(settings.ignore_keys)))
    if settings.ignore_order:
        on_a_full_stack(partial(put_in_order, value))
    return value


def _without_keys(value: Any, keys: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_keys(entry, keys) for key, entry in value.items() if key not in keys}
    return [_without_keys(entry, keys) for entry in value] if isinstance(value, list) else value
