"""The JSON Schema keywords that jsonschema's own code would run on a backtracking engine, or in quadratic time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jsonschema import ValidationError

from rubrics.checks.evidence import quote_words

Errors = Iterator[ValidationError]


def match_any(texts: Iterable[str], pattern: str) -> list[bool]:
    """For each text, whether the pattern matches somewhere in it. A lone surrogate is read as `?`."""
    encodable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    matches: list[bool] = pc.match_substring_regex(pa.array(encodable, pa.string()), pattern).to_pylist()
    return matches


def _pattern(validator: Any, pattern: str, instance: Any, schema: dict[str, Any]) -> Errors:
    if validator.is_type(instance, "string") and not match_any([instance], pattern)[0]:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, schema: dict[str, Any]) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for key, is_match in zip(instance, match_any(instance, pattern), strict=True):
            if is_match:
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
    """The keys that neither `properties` nor `patternProperties` speaks of, in the order of the object."""
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
    """A hashable stand-in, equal where JSON Schema says equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return ("object", frozenset((key, _freeze(entry)) for key, entry in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_freeze(entry) for entry in value))
    return ("boolean", value) if isinstance(value, bool) else value


SAFE_KEYWORDS: dict[str, Callable[..., Errors]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
