"""Checks of JSON in an output: its validity, its presence, a JSON Schema, and equality with the expected JSON."""

import json
import math
import re
from collections.abc import Collection
from copy import deepcopy
from decimal import Context, Decimal
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field, field_validator, model_validator

from gradebook.rubrics.check_kit.check import (
    PASSED,
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import (
    EXCERPT_CHARACTERS,
    cut_text,
    cut_texts,
    evidence_where,
    join_texts,
    text_column,
)
from gradebook.rubrics.check_kit.json_text import (
    Extract,
    FoundJson,
    NotJson,
    TooManyBrackets,
    extract_json,
    find_json,
    parse_json,
)
from gradebook.rubrics.check_kit.regexes import are_few
from gradebook.rubrics.check_kit.stack import on_a_full_stack
from gradebook.rubrics.text.wording import counted

JSON_WHITESPACE = " \t\r\n"
STARTS_BY_KIND = {"any": '"{[-0123456789tfn', "object": "{", "array": "["}
EXPECTED_BY_KIND = {"any": "JSON", "object": "a JSON object", "array": "a JSON array"}


class JsonSettings(CheckSettings):
    """Required kind of JSON."""

    kind: Literal["any", "object", "array"] = "any"
    """type of the top-level value"""


@register_check(
    "json_valid",
    JsonSettings,
    cost="rows",
    examples=(
        Example('{"ticket": 7}', True, {"kind": "object"}),
        Example('{"ticket": 7,}', False),
        Example("[7]", False, {"kind": "object"}),
    ),
)
def json_valid(shard: pa.Table, settings: JsonSettings) -> CheckVerdicts:
    """The whole output is JSON (RFC 8259) of the required kind; whitespace may surround it, a code fence may not.

    NaN, Infinity and more than 200 levels of nesting are refused. An object may have a key twice. The evidence gives
    the place and the reason.
    """
    texts = text_column(shard, "output")
    if are_few(texts):
        return gather_rows(_judge(text, settings.kind) for text in texts.to_pylist())
    is_likely = pc.match_substring_regex(texts, rf"\A[{JSON_WHITESPACE}]*[{re.escape(STARTS_BY_KIND[settings.kind])}]")
    faults = pa.array([_json_fault(text) for text in texts.filter(is_likely).to_pylist()], pa.string())
    faults = pc.replace_with_mask(pa.nulls(len(texts), pa.string()), is_likely, faults)
    is_valid, is_unlikely = pc.and_(is_likely, faults.is_null()), pc.invert(is_likely)
    if is_unlikely.true_count:
        starts = _describe_starts(_cut_starts(texts, is_unlikely), EXPECTED_BY_KIND[settings.kind])
        faults = pc.coalesce(faults, evidence_where(is_unlikely, starts))
    return CheckVerdicts(is_valid, faults)


def _judge(text: str | None, kind: str) -> RowFinding:
    if text is None:
        return RowFinding(None)
    start = text.lstrip(JSON_WHITESPACE)
    if start and start[0] in STARTS_BY_KIND[kind]:
        fault = _json_fault(text)
        return PASSED if fault is None else RowFinding(False, fault)
    expected = EXPECTED_BY_KIND[kind]
    description = f"starts with '{cut_text(start, EXCERPT_CHARACTERS)}'" if start else "empty"
    return RowFinding(False, f"{description}, expected {expected}")


def _json_fault(text: str) -> str | None:
    try:
        parse_json(text)
    except NotJson as error:
        return cut_text(str(error))
    return None


def _cut_starts(texts: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """Start of each text where the mask is true, without whitespace: one character longer than an excerpt.

    Texts are cut first, so that only those with leading whitespace are copied as a whole.
    """
    starts = pc.utf8_slice_codeunits(texts, 0, EXCERPT_CHARACTERS + 1)
    trimmed = pc.utf8_ltrim(starts, characters=JSON_WHITESPACE)
    is_padded = pc.and_(mask, pc.not_equal(pc.binary_length(starts), pc.binary_length(trimmed)))
    if is_padded.true_count:
        padded = pc.utf8_ltrim(texts.filter(is_padded), characters=JSON_WHITESPACE)
        starts = pc.replace_with_mask(starts, is_padded, pc.utf8_slice_codeunits(padded, 0, EXCERPT_CHARACTERS + 1))
    return starts.filter(mask)


def _describe_starts(starts: pa.Array, expected: str) -> pa.StringArray:
    quoted = join_texts("starts with '", cut_texts(starts, EXCERPT_CHARACTERS), f"', expected {expected}")
    return pc.if_else(pc.equal(pc.binary_length(starts), 0), f"empty, expected {expected}", quoted)


NAMES = {"object": "JSON object", "array": "JSON array", "any": "JSON object or array"}
PLURALS = {"object": "JSON objects", "array": "JSON arrays", "any": "JSON objects and arrays"}


class JsonObjectSettings(CheckSettings):
    """JSON to look for in the text."""

    kind: Literal["object", "array", "any"] = "object"
    """what to look for; `any` accepts objects and arrays"""
    is_only_one: bool = True
    """whether exactly one is allowed; otherwise one or more"""


@register_check(
    "has_json_object",
    JsonObjectSettings,
    cost="rows",
    examples=(
        Example('Here you are:\n```json\n{"ticket": 7}\n```\nAs said in [1].', True),
        Example('{"ticket": 7} or {"ticket": 8}', False),
        Example('{"ticket": 7, "tags": ["new", }', False),
    ),
)
def has_json_object(shard: pa.Table, settings: JsonObjectSettings) -> CheckVerdicts:
    """The output contains exactly one JSON object, bare or in a code fence, with any prose around it.

    An object within another object or an array is part of that and does not count. A broken object is skipped with its
    content: up to its closing bracket, or without one to the end of its code fence or of the text. A bracketed number
    such as [1] is an array. NaN, Infinity and more than 200 levels of nesting are refused. A quotation mark in prose
    right after a bracket can hide an object up to the end of its line. A text with more than 50,000 objects and arrays,
    or 10,000 broken ones, stays unscored.
    """
    texts = text_column(shard, "output")
    has_bracket = pc.match_substring_regex(texts, r"[{\[]")
    rows = zip(has_bracket.to_pylist(), texts.to_pylist(), strict=True)
    nothing = RowFinding(False, f"found no {NAMES[settings.kind]}")
    return gather_rows(_object_finding(text, settings) if is_likely else nothing for is_likely, text in rows)


def _object_finding(text: str, settings: JsonObjectSettings) -> RowFinding:
    try:
        found_json = find_json(text)
    except NotJson as error:
        return RowFinding(False, str(error))
    except TooManyBrackets as error:
        return RowFinding(None, reason=str(error))
    count = _count_kind(found_json, settings.kind)
    if count == 0:
        reason = f": {found_json.fault}" if found_json.fault else ""
        return RowFinding(False, f"found no {NAMES[settings.kind]}{reason}")
    if count > 1 and settings.is_only_one:
        return RowFinding(False, f"found {count} {PLURALS[settings.kind]}, expected one")
    return RowFinding(True)


def _count_kind(found_json: FoundJson, kind: str) -> int:
    counts = {"object": len(found_json.objects), "array": len(found_json.arrays)}
    return counts[kind] if kind in counts else sum(counts.values())


class SchemaSettings(CheckSettings):
    """JSON Schema."""

    model_config = ConfigDict(populate_by_name=True)

    json_schema: Annotated[dict[str, Any], Field(alias="schema")]
    """a JSON Schema; nothing is fetched, references stay within it, patterns are in RE2's syntax"""

    @model_validator(mode="after")
    def _schema_can_be_used(self) -> Self:
        from gradebook.rubrics.schemas.validating import check_schema  # here: slow to import, and few rubrics need it

        if (fault := check_schema(self.json_schema)) is not None:
            raise ValueError(f"schema: {fault}")
        return self


class JsonSchemaSettings(SchemaSettings):
    """JSON Schema, and the location of the JSON."""

    extract: Extract = "whole"
    """`whole`: the output is the JSON; `found`: the output contains one JSON object among other text, or no object and
    one array"""


@register_check(
    "json_schema",
    JsonSchemaSettings,
    cost="heavy",
    examples=(
        Example('{"ticket": 7}', True, {"schema": {"required": ["ticket"]}}),
        Example('Sure: {"ticket": "7"}', False, {"schema": {"required": ["id"]}, "extract": "found"}),
        Example("{}", False, {"schema": {"required": ["ticket"]}}),
    ),
)
def json_schema(shard: pa.Table, settings: JsonSchemaSettings) -> CheckVerdicts:
    """The output's JSON satisfies a JSON Schema, draft 2020-12 unless `$schema` names another.

    Works as the method `schema`, but can also find the JSON among other text. Text that is not JSON fails. The evidence
    lists the first three errors, each with its path. `format` is not asserted. An output whose validation takes more
    than 200,000 steps stays unscored. The rubric's `schemas` are not available here.
    """
    from gradebook.rubrics.schemas.validating import validate_outputs

    return validate_outputs(text_column(shard, "output"), settings.json_schema, extract=settings.extract)


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
            json.dumps(parsed := parse_json(json.dumps(value, allow_nan=False)), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"found a value that JSON can't hold ({error}), expected JSON") from None
        return parsed


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
        value = extract_json(output, settings.extract)
    except NotJson as error:
        return RowFinding(False, str(error))
    except TooManyBrackets as error:
        return RowFinding(None, reason=str(error))
    return _differing(_normalised(value, settings), expected, settings)


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


SHOWN_LEVELS = 8  # levels of a path that are shown
ROUNDING = 1e-15  # maximum error of the difference of two floats, as a share of the larger one
EXACT = Context(prec=1_000)  # enough digits for the exact difference of 1e308 and 5e-324
# types of equal rank are comparable
RANKS = MappingProxyType({type(None): 0, bool: 1, int: 2, float: 2, str: 3, list: 4, dict: 5})
AS_THEY_ARE = frozenset((str, int, bool, type(None)))  # types whose values are compared by `==`; floats need care


class TooLarge(Exception):
    """Two numbers are too large to compare."""

    def __str__(self) -> str:
        return "too large to compare: found two numbers beyond 1e308"


class _Difference(Exception):
    """Two values differ. path: keys and indices from the innermost outwards, appended on the way up."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message, *path)
        self.message = message
        self.path = list(path)


def put_in_order(value: Any) -> Any:
    """Sort the lists of a value in place, and return a sort key for values of the same type.

    The key is flat, with a type rank before each entry: a tuple per entry takes twice as long.
    """
    kind = type(value)
    if kind is dict:
        flat_key: list[Any] = []
        for key in sorted(value):
            entry = value[key]
            flat_key += key, RANKS[type(entry)], put_in_order(entry)
        return tuple(flat_key)
    if kind is list:
        return _sort_entries(value) if value else ()
    return 0 if value is None else value


def _sort_entries(entries: list[Any]) -> tuple[Any, ...]:
    ranks = {RANKS[kind] for kind in set(map(type, entries))}
    keys = [put_in_order(entry) for entry in entries]
    if len(ranks) > 1:
        keys = [(RANKS[type(entry)], key) for entry, key in zip(entries, keys, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    entries[:] = [entries[index] for index in order]
    if len(ranks) > 1:
        return tuple(part for index in order for part in keys[index])
    rank = max(ranks, default=0)
    return tuple(part for index in order for part in (rank, keys[index]))


def find_difference(found: Any, expected: Any, tolerance: float) -> str | None:
    """First difference with its path, in the order of the expected value; None if there is none.

    Raises `TooLarge` if two numbers beyond 1e308 have to be compared before it.
    """
    try:
        _compare(found, expected, tolerance)
    except _Difference as difference:
        return f"{_path_text(difference.path[::-1])}: {difference.message}"
    return None


def _compare(found: Any, expected: Any, tolerance: float) -> None:
    """Raise the first difference."""
    kind, is_alike = type(found), type(found) is type(expected)
    if is_alike and kind in AS_THEY_ARE and found == expected:
        return  # true for most values
    if is_alike and kind is dict:
        _compare_objects(found, expected, tolerance)
    elif is_alike and kind is list:
        _compare_lists(found, expected, tolerance)
    elif not _is_same(found, expected, tolerance):
        raise _Difference(f"found {_json_excerpt(found)}, expected {_json_excerpt(expected)}")


def _compare_objects(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    for key, expected_value in expected.items():
        if key not in found:
            raise _Difference(f"missing, expected {_json_excerpt(expected_value)}", key)
        try:
            _compare(found[key], expected_value, tolerance)
        except _Difference as difference:
            difference.path.append(key)
            raise
    for key, found_value in found.items():
        if key not in expected:
            raise _Difference(f"found {_json_excerpt(found_value)}, expected no such key", key)


def _compare_lists(found: list[Any], expected: list[Any], tolerance: float) -> None:
    for index, (found_value, expected_value) in enumerate(zip(found, expected, strict=False)):
        try:
            _compare(found_value, expected_value, tolerance)
        except _Difference as difference:
            difference.path.append(index)
            raise
    if len(found) != len(expected):
        raise _Difference(f"found {counted(len(found), 'entry', 'entries')}, expected {len(expected)}")


def _is_same(found: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        if math.isinf(found) and found == expected:
            raise TooLarge
        return found == expected or _is_near(found, expected, tolerance)
    return bool(found == expected)


def _is_near(found: float, expected: float, tolerance: float) -> bool:
    """Whether two numbers are within the tolerance as written: 1.1 is 0.1 from 1, though their floats are further
    apart.
    """
    difference = abs(found - expected)
    rounding = max(abs(found), abs(expected)) * ROUNDING
    if math.isinf(difference) or abs(difference - tolerance) > rounding:
        return difference <= tolerance
    one, other, most = (Decimal(repr(number)) for number in (found, expected, tolerance))
    return EXACT.subtract(one, other).copy_abs() <= most


def _path_text(path: list[str | int]) -> str:
    """Path in JSONPath notation, shortened in the middle if it is long."""
    steps = [f"[{step}]" if isinstance(step, int) else _key_text(step) for step in path]
    if len(steps) > SHOWN_LEVELS:
        steps = [*steps[: SHOWN_LEVELS // 2], "…", *steps[-SHOWN_LEVELS // 2 :]]
    return "$" + "".join(steps)


def _key_text(key: str) -> str:
    return f".{key}" if key.isidentifier() and len(key) <= EXCERPT_CHARACTERS else f"[{_json_excerpt(key)}]"


def _json_excerpt(value: Any) -> str:
    return cut_text(on_a_full_stack(partial(json.dumps, value, ensure_ascii=False)), EXCERPT_CHARACTERS)
