"""Draft of a schema, and that draft's validator class with safe keywords."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.schemas.keywords import metered_keywords

Schema = dict[str, Any]
Draft = type[Validator]


class SchemaFault(Exception):
    """A schema has a fault, described in one sentence."""


def draft_of(schema: Schema, others: Mapping[str, Schema]) -> Draft:
    """Draft named by `$schema`; without one, the draft of the other schemas, or 2020-12.

    others: schemas that it may refer to; their draft counts only if they all name the same. Raises `SchemaFault`.
    """
    if "$schema" in schema:
        return _draft_named(schema["$schema"])
    named = {_draft_named(other["$schema"]) for other in others.values() if "$schema" in other}
    return named.pop() if len(named) == 1 else Draft202012Validator


def refuse_other_draft(name: str, schema: Schema, draft: Draft) -> None:
    """Refuse a schema of another draft, as a validation uses a single draft. Raises `SchemaFault`."""
    if "$schema" in schema and _draft_named(schema["$schema"]) is not draft:
        found, expected = schema["$schema"], draft.META_SCHEMA["$schema"]
        raise SchemaFault(f"$ref: found {name!r} of the draft {found!r}, expected one of {expected!r}")


def _draft_named(name: Any) -> Draft:
    find_draft: Callable[..., Draft | None] = validators.validator_for
    draft = find_draft({"$schema": name}, default=None) if isinstance(name, str) else None
    if draft is None:
        raise SchemaFault(f"$schema: found {name!r}, expected a JSON Schema draft from 3 to 2020-12")
    return draft


@cache
def safe_class(draft: Draft) -> Draft:
    """The draft's validator with metered keywords, and replacements for those that could stall."""
    extend: Callable[..., Draft] = validators.extend
    return extend(draft, validators=metered_keywords(dict(draft.VALIDATORS)))


def without_dialect(schema: Schema) -> Schema:
    """Remove `$schema`, which would make jsonschema switch back to its own keywords."""
    return {key: value for key, value in schema.items() if key != "$schema"}


def dialect_fault(schema: Any, draft: Draft) -> str | None:
    """First fault found by the draft's own schema. Formats are ignored: "regex" would mean Python's syntax, not
    RE2's.
    """
    meta_validator = draft(draft.META_SCHEMA, format_checker=FormatChecker(formats=()))
    error = best_match(meta_validator.iter_errors(schema))
    return None if error is None else describe_error(error)


def describe_error(error: ValidationError | Any) -> str:
    """Path and message of an error. A long instance in the message is cut, as it would push the reason out of sight."""
    shown = repr(error.instance)
    message = error.message.replace(shown, cut_text(shown, EXCERPT_CHARACTERS)) if shown else error.message
    return cut_text(f"{error.json_path}: {message}")


def entries_in(schema: Any, most: int) -> int:
    """Count the values in the schema, stopping just above the limit."""
    count, waiting = 0, [schema]
    while waiting and count <= most:
        value = waiting.pop()
        count += 1
        waiting += list(_children_of(value))
    return count


def _children_of(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
