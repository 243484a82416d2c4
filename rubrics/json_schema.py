"""JSON Schema on hostile text: nothing is fetched, and no pattern runs on a backtracking engine.

Validation is jsonschema's, draft 2020-12 unless `$schema` names another, with four keywords replaced: `pattern`,
`patternProperties` and `additionalProperties` match by RE2, and `uniqueItems` takes linear time. `format` is an
annotation, as the drafts have it by default.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa
import referencing
import referencing.exceptions
import referencing.jsonschema
from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError, validators
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from rubrics.checks.evidence import EXCERPT_CHARACTERS, cut_text
from rubrics.checks.json_text import NotJson, parse_json
from rubrics.checks.regexes import regex_fault
from rubrics.checks.registry import CheckVerdicts
from rubrics.checks.schema_keywords import SAFE_KEYWORDS

MOST_ERRORS_SHOWN = 3
REFERENCE_KEYWORDS = {"$ref", "$dynamicRef", "$recursiveRef"}
PROBES: tuple[Any, ...] = (None, True, 0, "", [], {})


def check_schema(schema: dict[str, Any]) -> str | None:
    """What is wrong with a schema, in one sentence; None where outputs can be validated with it.

    Refused are: what its draft's own schema refuses, an unknown `$schema` or a second one inside, a reference that
    leaves the schema, a pattern that RE2 can't take, `unevaluatedProperties` in a schema that also has
    `patternProperties` (jsonschema would match those by its own engine), and a reference that leads straight back to
    itself from the top.
    """
    try:
        return next(_schema_faults(schema), None)
    except RecursionError:
        return "found a nesting without end, or a $ref that leads to itself; expected a finite schema"


def validate_outputs(outputs: pa.Array, schema: dict[str, Any]) -> CheckVerdicts:
    """Validate each output, read as JSON, against the schema. outputs: (output,).

    The evidence of a fail holds the first three errors, each with its JSON path, or says why the output is not JSON.
    Raises `ValueError` for a schema that `check_schema` refuses.
    """
    fault = check_schema(schema)
    if fault is not None:
        raise ValueError(f"schema: {fault}")
    validator = _build_validator(schema)
    evidence = pa.array([_output_fault(text, validator) for text in outputs.to_pylist()], pa.string())
    return CheckVerdicts(evidence.is_null(), evidence)


def _output_fault(text: str, validator: Validator) -> str | None:
    """Why one output fails; None where it passes."""
    try:
        errors = list(islice(validator.iter_errors(parse_json(text)), MOST_ERRORS_SHOWN))
        return "; ".join(_describe_error(error) for error in errors) or None
    except NotJson as error:
        return cut_text(f"not JSON: {error}")
    except RecursionError:
        return "nested too deeply to validate"
    except OverflowError:  # 1e999 is JSON, and no multiple of anything
        return "holds a number too large to validate"


def _describe_error(error: ValidationError | SchemaError) -> str:
    """The path and the message; a long instance in the message would push its end, the reason, out of sight."""
    shown = repr(error.instance)
    message = error.message.replace(shown, cut_text(shown, EXCERPT_CHARACTERS))
    return cut_text(f"{error.json_path}: {message}")


def _build_validator(schema: dict[str, Any]) -> Validator:
    """A validator that fetches nothing. `$schema` is left out, or jsonschema would go back to its own keywords."""
    draft = _safe_class(_draft_of(schema) or Draft202012Validator)
    return draft(_without_dialect(schema), registry=referencing.Registry())


def _without_dialect(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "$schema"}


@cache
def _safe_class(draft: type[Validator]) -> type[Validator]:
    extend: Callable[..., type[Validator]] = validators.extend
    return extend(draft, validators=SAFE_KEYWORDS)


def _draft_of(schema: dict[str, Any]) -> type[Validator] | None:
    """The draft that `$schema` names, 2020-12 where there is none; None where it is unknown."""
    name = schema.get("$schema", Draft202012Validator.META_SCHEMA["$id"])
    find_draft: Callable[..., type[Validator] | None] = validators.validator_for
    return find_draft({"$schema": name}, default=None) if isinstance(name, str) else None


def _schema_faults(schema: dict[str, Any]) -> Iterator[str]:
    draft = _draft_of(schema)
    if draft is None:
        yield f"$schema: found {schema['$schema']!r}, expected a JSON Schema draft from 3 to 2020-12"
        return
    fault = _dialect_fault(schema, draft)
    if fault is not None:
        yield fault
        return
    try:
        subschemas = list(_walk(schema, draft))
    except _BadReference as error:
        yield f"$ref: {error}"
        return
    for subschema in subschemas:
        yield from _keyword_faults(subschema)
    if {"unevaluatedProperties", "patternProperties"} <= {key for subschema in subschemas for key in subschema}:
        yield "found unevaluatedProperties and patternProperties, expected only one of them in a schema"
    for probe in PROBES:
        _build_validator(schema).is_valid(probe)  # a reference that leads to itself raises `RecursionError`


def _dialect_fault(schema: Any, draft: type[Validator]) -> str | None:
    """What the draft's own schema finds wrong. Formats are left out: "regex" would be Python's syntax, not RE2's."""
    meta_validator = draft(draft.META_SCHEMA, format_checker=FormatChecker(formats=()))
    error = best_match(meta_validator.iter_errors(schema))
    return None if error is None else _describe_error(error)


def _keyword_faults(subschema: dict[str, Any]) -> Iterator[str]:
    if "$schema" in subschema:
        yield f"$schema: found {subschema['$schema']!r} inside the schema, expected it at the top alone"
    patterns = [*subschema.get("patternProperties", ()), *(subschema[key] for key in ("pattern",) if key in subschema)]
    for pattern in patterns:
        fault = regex_fault(pattern)
        if fault is not None:
            yield f"pattern: found {pattern!r}, expected a regular expression that RE2 takes: {fault}"


class _BadReference(Exception):
    """A reference does not lead to a schema inside the schema."""


def _walk(schema: dict[str, Any], draft: type[Validator]) -> Iterator[dict[str, Any]]:
    """Every subschema and what the references lead to, once each, the schema itself without `$schema`."""
    dialect = referencing.jsonschema.specification_with(draft.META_SCHEMA["$schema"])
    root = dialect.create_resource(_without_dialect(schema))
    waiting = [(root, referencing.Registry().resolver_with_root(root))]
    seen: set[int] = set()
    while waiting:
        resource, resolver = waiting.pop()
        if not isinstance(resource.contents, dict) or id(resource.contents) in seen:
            continue
        seen.add(id(resource.contents))
        yield resource.contents
        waiting += [(child, resolver.in_subresource(child)) for child in resource.subresources()]
        for keyword in REFERENCE_KEYWORDS & resource.contents.keys():
            target = _follow(str(resource.contents[keyword]), resolver, draft)
            waiting.append((dialect.create_resource(target.contents), target.resolver))


def _follow(reference: str, resolver: Any, draft: type[Validator]) -> Any:
    """What a reference leads to. Raises `_BadReference` where that is outside the schema, or no schema."""
    try:
        target = resolver.lookup(reference)
    except referencing.exceptions.Unresolvable:
        raise _BadReference(f"found {reference!r}, expected a place inside the schema") from None
    fault = _dialect_fault(target.contents, draft)
    if fault is not None:
        raise _BadReference(f"found {reference!r}, expected it to lead to a schema: {fault}")
    return target
