"""JSON Schema keywords with a bound on their work.

Each call of a keyword counts its steps. The bound is in steps rather than time, so that a verdict never depends on
speed. Most keywords are jsonschema's own. The ones that would use a backtracking engine, take quadratic time, round or
continue after the answer is known are replaced here, such as `unevaluatedProperties` and `unevaluatedItems`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jsonschema import ValidationError
from referencing.jsonschema import lookup_recursive_ref

from gradebook.rubrics.check_kit.columns import quote_words
from gradebook.rubrics.check_kit.regexes import repeated_places

Errors = Iterator[ValidationError]
Evaluated = set[Any]  # keys of an object, or indices of an array
FindOwn = Callable[[Any, Any, dict[str, Any]], Evaluated]


def unevaluated_properties(validator: Any, subschema: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    other_keywords = {keyword: value for keyword, value in schema.items() if keyword != "unevaluatedProperties"}
    evaluated = _evaluated(validator, instance, other_keywords, _own_keys)
    wrong = [
        key for key in instance if key not in evaluated and not _is_valid_counted(validator, instance[key], subschema)
    ]
    if wrong:
        yield ValidationError(f"unevaluated properties are not allowed: {quote_words(wrong)}")


def unevaluated_items(validator: Any, subschema: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    other_keywords = {keyword: value for keyword, value in schema.items() if keyword != "unevaluatedItems"}
    evaluated = _evaluated(validator, instance, other_keywords, _own_indices)
    wrong = [
        index
        for index, entry in enumerate(instance)
        if index not in evaluated and not _is_valid_counted(validator, entry, subschema)
    ]
    if wrong:
        yield ValidationError(f"unevaluated items are not allowed: found some at {', '.join(map(str, wrong))}")


def _evaluated(validator: Any, instance: Any, schema: Any, find_own: FindOwn) -> Evaluated:
    """Everything that the schema's keywords evaluate, including those of applicable subschemas and references."""
    if not isinstance(schema, dict):
        return set()
    evaluated = find_own(validator, instance, schema)
    spend(1 + len(schema) + len(evaluated) // 16)
    for target in _referred(validator, schema):
        inner = validator.evolve(schema=target.contents, _resolver=target.resolver)
        evaluated |= _evaluated(inner, instance, target.contents, find_own)
    for subschema in _satisfied_schemas(validator, instance, schema):
        evaluated |= _evaluated(validator, instance, subschema, find_own)
    return evaluated


def _referred(validator: Any, schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            yield validator._resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        yield lookup_recursive_ref(validator._resolver)


def _satisfied_schemas(validator: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
    """Subschemas for the same instance that it satisfies; others evaluate nothing."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(keyword, ()):
            if _is_valid_counted(validator, instance, subschema):
                yield subschema
    if isinstance(instance, dict):
        for key, subschema in schema.get("dependentSchemas", {}).items():
            if key in instance:
                yield subschema
    if "if" in schema:
        is_met = _is_valid_counted(validator, instance, schema["if"])
        if is_met:
            yield schema["if"]
        yield schema.get("then" if is_met else "else", True)


def _own_keys(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> Evaluated:
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)  # with the keywords next to it, this keyword covers every key
    evaluated: Evaluated = instance.keys() & schema.get("properties", {}).keys()
    for pattern in schema.get("patternProperties", {}):
        matches = match_any(instance, pattern)
        evaluated |= {key for key, is_match in zip(instance, matches, strict=True) if is_match}
    return evaluated


def _own_indices(validator: Any, instance: list[Any], schema: dict[str, Any]) -> Evaluated:
    everything = set(range(len(instance)))
    items = schema.get("items")
    if "unevaluatedItems" in schema or isinstance(items, dict | bool):
        return everything
    if isinstance(items, list):  # until 2019-09: a list of schemas, one per index
        return everything if "additionalItems" in schema else set(range(len(items)))
    evaluated = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema and "prefixItems" in validator.VALIDATORS:  # since 2020-12
        evaluated |= {
            index for index, entry in enumerate(instance) if _is_valid_counted(validator, entry, schema["contains"])
        }
    return evaluated


def _is_valid_counted(validator: Any, instance: Any, subschema: Any) -> bool:
    spend(1)
    return next(validator.descend(instance, subschema), None) is None


Keyword = Callable[..., Errors | None]  # None: no errors, as in jsonschema

MESSAGE_CHARACTERS_A_STEP = 50
STEPS_A_REFERENCE = 12
SMALL_LOOP = 16  # entries that one step processes
# Keywords that validate each entry of the instance, or each of their own parts.
ENTRIES = frozenset(
    {"items", "prefixItems", "additionalItems", "contains", "propertyNames"}
    | {"patternProperties", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
)
REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
PARTS = frozenset({"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "extends", "disallow", "type"})


def metered_keywords(keywords: dict[str, Keyword]) -> dict[str, Keyword]:
    """Keywords of a draft, made safe and with counted steps."""
    return {name: _counted(name, SAFE_KEYWORDS.get(name, keyword)) for name, keyword in keywords.items()}


def _counted(name: str, keyword: Keyword) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
        spend(_step_count(name, value, instance))
        for error in keyword(validator, value, instance, schema) or ():
            if not error.schema_path:  # errors of nested keywords are counted in their own calls
                spend(len(error.message) // MESSAGE_CHARACTERS_A_STEP)
            yield error

    return check


def _step_count(name: str, value: Any, instance: Any) -> int:
    """Steps of a call, without nested calls of other keywords."""
    entry_count = len(instance) if isinstance(instance, list | dict) else 0
    part_count = len(value) if isinstance(value, list | dict) else 0
    if name in REFERENCES:
        return STEPS_A_REFERENCE
    if name in ENTRIES:
        return 1 + entry_count + part_count // SMALL_LOOP
    if name == "properties":
        return 1 + min(entry_count, part_count) + part_count // SMALL_LOOP
    return 1 + (part_count if name in PARTS else part_count // SMALL_LOOP)


def _pattern(validator: Any, pattern: str, instance: Any, schema: dict[str, Any]) -> Errors:
    if validator.is_type(instance, "string") and not match_any([instance], pattern)[0]:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, schema: dict[str, Any]) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for key, is_match in zip(instance, match_any(instance, pattern), strict=True):
            if is_match:
                spend(1)
                yield from validator.descend(instance[key], subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    extras = _extra_keys(instance, schema)
    if isinstance(allowed, dict):
        for key in extras:
            yield from validator.descend(instance[key], allowed, path=key)
    elif not allowed and extras:
        yield ValidationError(f"additional properties are not allowed: {quote_words(extras)}")


def _extra_keys(instance: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Keys not covered by `properties` and `patternProperties`, in the order of the object."""
    extras = [key for key in instance if key not in schema.get("properties", {})]
    for pattern in schema.get("patternProperties", {}):
        matches = match_any(extras, pattern)
        extras = [key for key, is_match in zip(extras, matches, strict=True) if not is_match]
    return extras


def _unique_items(validator: Any, is_wanted: bool, instance: Any, schema: dict[str, Any]) -> Errors:
    if not is_wanted or not validator.is_type(instance, "array"):
        return
    seen = set()
    for entry in instance:
        frozen = _freeze(entry)
        if frozen in seen:
            yield ValidationError(f"found an entry more than once, expected unique items: {entry!r}")
            return
        seen.add(frozen)


def _freeze(value: Any) -> Any:
    """Hashable key, equal for values that JSON Schema defines as equal: 1 and 1.0 are, 1 and true are not."""
    spend(1)
    if isinstance(value, dict):
        return ("object", frozenset((key, _freeze(entry)) for key, entry in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_freeze(entry) for entry in value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return (type(value), value)
    # As text: Python's hash of a number is predictable, so hostile numbers could collide.
    return ("number", str(int(value)) if math.isfinite(value) and value == int(value) else str(value))


def _multiple_of(validator: Any, divisor: float, instance: Any, schema: dict[str, Any]) -> Errors:
    """Check exactly: 0.07 is a multiple of 0.01, though the quotient of their floats is not a whole number."""
    if not validator.is_type(instance, "number"):
        return
    if math.isinf(instance):
        raise OverflowError  # 1e999 is valid JSON, and too large to decide
    if Fraction(repr(instance)) % Fraction(repr(divisor)):
        yield ValidationError(f"{instance!r} is not a multiple of {divisor!r}")


def _enum(validator: Any, allowed: list[Any], instance: Any, schema: dict[str, Any]) -> Errors:
    if not any(_is_equal(allowed_value, instance) for allowed_value in allowed):
        yield ValidationError(f"{instance!r} is not one of {allowed!r}")


def _const(validator: Any, expected: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    if not _is_equal(expected, instance):
        yield ValidationError(f"{expected!r} was expected")


def _is_equal(one: Any, other: Any) -> bool:
    """Whether JSON Schema defines two values as equal, as in `_freeze`."""
    if isinstance(one, dict) and isinstance(other, dict):
        spend(1)
        return one.keys() == other.keys() and all(_is_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        spend(1 + min(len(one), len(other)) // SMALL_LOOP)
        return len(one) == len(other) and all(_is_equal(left, right) for left, right in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _any_of(validator: Any, subschemas: list[Any], instance: Any, schema: dict[str, Any]) -> Errors:
    if not any(_is_valid(validator, instance, subschema) for subschema in subschemas):
        yield ValidationError(f"{instance!r} is not valid under any of the given schemas")


def _one_of(validator: Any, subschemas: list[Any], instance: Any, schema: dict[str, Any]) -> Errors:
    valid = [subschema for subschema in subschemas if _is_valid(validator, instance, subschema)]
    if not valid:
        yield ValidationError(f"{instance!r} is not valid under any of the given schemas")
    elif len(valid) > 1:
        yield ValidationError(f"{instance!r} is valid under each of {', '.join(map(repr, valid))}")


def _is_valid(validator: Any, instance: Any, subschema: Any) -> bool:
    return next(validator.descend(instance, subschema), None) is None


SAFE_KEYWORDS: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "divisibleBy": _multiple_of,  # name in draft 3
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "unevaluatedProperties": unevaluated_properties,
    "unevaluatedItems": unevaluated_items,
}


STEPS_A_CALL = 16
TEXTS_A_STEP = 8
CHARACTERS_A_STEP = 500
PLACES_A_STEP = 150  # repeated places times characters per step: RE2's speed without its automaton


_cached_repeated_places = lru_cache(maxsize=1_000)(repeated_places)


def match_any(texts: Iterable[str], pattern: str) -> list[bool]:
    """Whether the pattern matches anywhere in each text. A lone surrogate is read as `?`. Counts its steps."""
    encodable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    size = sum(map(len, encodable))
    search_steps = size // CHARACTERS_A_STEP + size * _cached_repeated_places(pattern) // PLACES_A_STEP
    spend(STEPS_A_CALL + len(encodable) // TEXTS_A_STEP + search_steps)
    matches: list[bool] = pc.match_substring_regex(pa.array(encodable, pa.string()), pattern).to_pylist()
    return matches


MOST_STEPS = 200_000  # a step takes about 3 microseconds on an idle core


class TooManySteps(Exception):
    """The validation exceeded its number of steps."""

    def __init__(self, most: int) -> None:
        super().__init__(most)

    def __str__(self) -> str:
        return f"validation took more than {self.args[0]:,} steps"


class _Meter:
    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most


_METER: ContextVar[_Meter] = ContextVar("steps")


@contextmanager
def metered(most: int = MOST_STEPS) -> Iterator[None]:
    """Count the steps within the block, from zero; `spend` raises `TooManySteps` above the limit."""
    token = _METER.set(_Meter(most))
    try:
        yield
    finally:
        _METER.reset(token)


def spend(step_count: int) -> None:
    """Count steps. Raises `TooManySteps`."""
    meter = _METER.get()
    meter.left -= step_count
    if meter.left < 0:
        raise TooManySteps(meter.most)
