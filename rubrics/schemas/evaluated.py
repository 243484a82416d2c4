"""Values evaluated by other keywords of a schema, for `unevaluatedProperties` and `unevaluatedItems`.

jsonschema's own implementation uses lists, which takes quadratic time, and matches patterns with a backtracking engine.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import ValidationError
from referencing.jsonschema import lookup_recursive_ref

from gradebook.rubrics.check_kit.evidence import quote_words
from gradebook.rubrics.schemas.matching import match_any
from gradebook.rubrics.schemas.metering import spend

Errors = Iterator[ValidationError]
Evaluated = set[Any]  # keys of an object, or indices of an array
FindOwn = Callable[[Any, Any, dict[str, Any]], Evaluated]


def unevaluated_properties(validator: Any, subschema: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    own = {keyword: value for keyword, value in schema.items() if keyword != "unevaluatedProperties"}
    seen = _evaluated(validator, instance, own, _own_keys)
    wrong = [key for key in instance if key not in seen and not _is_valid(validator, instance[key], subschema)]
    if wrong:
        yield ValidationError(f"unevaluated properties are not allowed: {quote_words(wrong)}")


def unevaluated_items(validator: Any, subschema: Any, instance: Any, schema: dict[str, Any]) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    own = {keyword: value for keyword, value in schema.items() if keyword != "unevaluatedItems"}
    seen = _evaluated(validator, instance, own, _own_places)
    wrong = [
        place
        for place, entry in enumerate(instance)
        if place not in seen and not _is_valid(validator, entry, subschema)
    ]
    if wrong:
        yield ValidationError(f"unevaluated items are not allowed: found some at {', '.join(map(str, wrong))}")


def _evaluated(validator: Any, instance: Any, schema: Any, find_own: FindOwn) -> Evaluated:
    """Everything that the schema's keywords evaluate, including those of applicable subschemas and references."""
    if not isinstance(schema, dict):
        return set()
    seen = find_own(validator, instance, schema)
    spend(1 + len(schema) + len(seen) // 16)
    for target in _referred(validator, schema):
        inner = validator.evolve(schema=target.contents, _resolver=target.resolver)
        seen |= _evaluated(inner, instance, target.contents, find_own)
    for subschema in _satisfied_schemas(validator, instance, schema):
        seen |= _evaluated(validator, instance, subschema, find_own)
    return seen


def _referred(validator: Any, schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            yield validator._resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        yield lookup_recursive_ref(validator._resolver)


def _satisfied_schemas(validator: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
    """Subschemas for the same instance that it satisfies; a failed one evaluates nothing."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(keyword, ()):
            if _is_valid(validator, instance, subschema):
                yield subschema
    if isinstance(instance, dict):
        for key, subschema in schema.get("dependentSchemas", {}).items():
            if key in instance:
                yield subschema
    if "if" in schema:
        is_met = _is_valid(validator, instance, schema["if"])
        if is_met:
            yield schema["if"]
        yield schema.get("then" if is_met else "else", True)


def _own_keys(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> Evaluated:
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)  # together with the keywords next to it, it covers every key
    seen: Evaluated = instance.keys() & schema.get("properties", {}).keys()
    for pattern in schema.get("patternProperties", {}):
        matches = match_any(instance, pattern)
        seen |= {key for key, is_match in zip(instance, matches, strict=True) if is_match}
    return seen


def _own_places(validator: Any, instance: list[Any], schema: dict[str, Any]) -> Evaluated:
    everything = set(range(len(instance)))
    items = schema.get("items")
    if "unevaluatedItems" in schema or isinstance(items, dict | bool):
        return everything
    if isinstance(items, list):  # until 2019-09: a list of schemas, one per index
        return everything if "additionalItems" in schema else set(range(len(items)))
    seen = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema and "prefixItems" in validator.VALIDATORS:  # since 2020-12
        seen |= {place for place, entry in enumerate(instance) if _is_valid(validator, entry, schema["contains"])}
    return seen


def _is_valid(validator: Any, instance: Any, subschema: Any) -> bool:
    spend(1)
    return next(validator.descend(instance, subschema), None) is None
