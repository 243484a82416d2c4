"""Checks of schemas, and validation of outputs against them.

Validation is jsonschema's, draft 2020-12 unless `$schema` names another, with the keywords of `keywords.py`. `format`
is an annotation, as is the default of the drafts.

References of a schema may lead to a place within it or to the other schemas of the rubric, and nowhere else.
"""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import islice
from typing import Any
from urllib.parse import urljoin

import pyarrow as pa
import referencing
import referencing.exceptions
import referencing.jsonschema
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, RowFinding, gather_rows
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.check_kit.json_text import Extract, NotJson, TooManyBrackets, extract_json
from gradebook.rubrics.check_kit.regexes import costly_regex, regex_fault
from gradebook.rubrics.check_kit.stack import on_a_full_stack
from gradebook.rubrics.schemas.keywords import TooManySteps, metered, metered_keywords

Schema = dict[str, Any]
Draft = type[Validator]


class SchemaFault(Exception):
    """A schema has a fault, described in one sentence."""


def draft_of(schema: Schema, others: Mapping[str, Schema]) -> Draft:
    """Draft named by `$schema`; without one, the draft of the other schemas, or 2020-12.

    others: schemas that it may refer to; their draft counts only if all name the same draft. Raises `SchemaFault`.
    """
    if "$schema" in schema:
        return _draft_named(schema["$schema"])
    drafts = {_draft_named(other["$schema"]) for other in others.values() if "$schema" in other}
    return drafts.pop() if len(drafts) == 1 else Draft202012Validator


def refuse_other_draft(name: str, schema: Schema, draft: Draft) -> None:
    """Refuse a schema of another draft, as a validation uses a single draft. Raises `SchemaFault`."""
    if "$schema" in schema and _draft_named(schema["$schema"]) is not draft:
        named_draft, expected = schema["$schema"], draft.META_SCHEMA["$schema"]
        raise SchemaFault(f"$ref: found {name!r} of the draft {named_draft!r}, expected one of {expected!r}")


def _draft_named(name: Any) -> Draft:
    find_draft: Callable[..., Draft | None] = validators.validator_for
    draft = find_draft({"$schema": name}, default=None) if isinstance(name, str) else None
    if draft is None:
        raise SchemaFault(f"$schema: found {name!r}, expected a JSON Schema draft from 3 to 2020-12")
    return draft


@cache
def safe_class(draft: Draft) -> Draft:
    """Validator class of the draft with metered keywords; keywords that could stall are replaced."""
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
    """Path and message of an error. A long instance in the message is cut, so that the reason stays visible."""
    instance_text = repr(error.instance)
    message = (
        error.message.replace(instance_text, cut_text(instance_text, EXCERPT_CHARACTERS))
        if instance_text
        else error.message
    )
    return cut_text(f"{error.json_path}: {message}")


def entries_in(schema: Any, most: int) -> int:
    """Count the values in the schema, stopping just above the limit."""
    count, pending = 0, [schema]
    while pending and count <= most:
        value = pending.pop()
        count += 1
        pending += list(_children_of(value))
    return count


def _children_of(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


MOST_ERRORS_SHOWN = 3
MOST_PROBE_STEPS = 20_000
PROBES: tuple[Any, ...] = (None, True, 0, "", [], {})
ENDLESS = "found endless nesting, or a $ref that leads to itself; expected a finite schema"
NO_SCHEMAS: Mapping[str, Schema] = {}


def check_schema(schema: Schema, others: Mapping[str, Schema] = NO_SCHEMAS) -> str | None:
    """First fault of a schema, in one sentence; None if outputs can be validated with it.

    others: schemas that it may refer to, by name. Refused are: schemas that violate their draft's own schema, an
    unknown `$schema`, a nested one or one of another draft, a reference to an unknown schema, a pattern that RE2
    rejects, endless references, and schemas that are too large or take too many steps for a bare value.
    """
    fault = _validator_or_fault(schema, others)
    return fault if isinstance(fault, str) else None


def validate_outputs(
    outputs: pa.Array, schema: Schema, others: Mapping[str, Schema] = NO_SCHEMAS, extract: Extract = "whole"
) -> CheckVerdicts:
    """Validate each output's JSON against the schema.

    outputs: (output,). others: schemas that it may refer to, by name. The evidence of a failure lists the first three
    errors, each with its JSON path, or the reason why the output is not JSON. An output is unscored if it takes too
    many steps, is nested too deeply or has a number that is too large. Raises `ValueError` for a schema that
    `check_schema` refuses.
    """
    validator = _validator_or_fault(schema, others)
    if isinstance(validator, str):
        raise ValueError(f"schema: {validator}")
    return gather_rows(_output_finding(text, validator, extract) for text in outputs.to_pylist())


def _output_finding(text: str, validator: Validator, extract: Extract) -> RowFinding:
    try:
        fault = on_a_full_stack(partial(_instance_fault, extract_json(text, extract), validator))
        return RowFinding(fault is None, fault)
    except NotJson as error:
        return RowFinding(False, str(error))
    except (TooManyBrackets, TooManySteps) as error:
        return RowFinding(None, reason=str(error))
    except RecursionError:
        return RowFinding(None, reason="nested too deeply to validate")
    except OverflowError:
        return RowFinding(None, reason="holds a number too large to validate")


def _instance_fault(instance: Any, validator: Validator) -> str | None:
    with metered():
        errors = list(islice(validator.iter_errors(instance), MOST_ERRORS_SHOWN))
    return "; ".join(describe_error(error) for error in errors) or None


def _validator_or_fault(schema: Schema, others: Mapping[str, Schema]) -> Validator | str:
    """Validator that fetches nothing, or the fault of the schema."""
    try:
        text = on_a_full_stack(lambda: json.dumps([schema, dict(others)], allow_nan=False))
        return on_a_full_stack(partial(_parse_validator, text))
    except RecursionError:
        return ENDLESS
    except (ValueError, TypeError) as error:
        return f"found a value that JSON can't hold ({error}), expected plain numbers and text"


@lru_cache(maxsize=256)  # rows with per-case criteria tend to repeat the same schemas
def _parse_validator(text: str) -> Validator | str:
    """Build a validator as `_validator_or_fault` does, from the schema and the others as JSON text."""
    schema, others = json.loads(text)
    try:
        draft = draft_of(schema, others)
        for subschema in reached_schemas(schema, others, draft):
            _refuse_keywords(subschema)
        validator = _build(schema, others, draft)
        with metered(MOST_PROBE_STEPS):
            for probe in PROBES:
                validator.is_valid(probe)  # an endless reference raises `RecursionError`
    except SchemaFault as fault:
        return str(fault)
    except TooManySteps as error:
        return f"found a schema over which {error} for an empty value, expected one that needs fewer"
    except ValueError as error:
        return f"found an $id that is not an address ({error}), expected a URI"
    return validator


def _build(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> Validator:
    return safe_class(draft)(without_dialect(schema), registry=registry_of(schema, others, draft))


def _refuse_keywords(subschema: Schema) -> None:
    if "$schema" in subschema:
        raise SchemaFault(f"$schema: found {subschema['$schema']!r} inside the schema, expected it only at the top")
    for pattern in _patterns_of(subschema):
        fault = regex_fault(pattern)
        if fault is not None:
            raise SchemaFault(f"pattern: found {pattern!r}, expected a regular expression that RE2 accepts: {fault}")
        if (fault := costly_regex(pattern)) is not None:
            raise SchemaFault(f"pattern: {fault}")


def _patterns_of(subschema: Schema) -> Iterator[str]:
    yield from subschema.get("patternProperties", ())
    if "pattern" in subschema:
        yield subschema["pattern"]


REFERENCE_KEYWORDS = {"$ref", "$dynamicRef", "$recursiveRef"}
MOST_ENTRIES = 20_000  # values in a schema and its references

Registry = referencing.Registry[Any]


def registry_of(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> Registry:
    """Register the other schemas by name, resolved against every base that a top-level `$id` sets."""
    dialect = referencing.jsonschema.specification_with(draft.META_SCHEMA["$schema"])
    resources = [(name, dialect.create_resource(without_dialect(other))) for name, other in others.items()]
    bases = {dialect.create_resource(schema).id() or "", *(resource.id() or "" for _, resource in resources)}
    resources_by_address = [(urljoin(base, name), resource) for base in sorted(bases) for name, resource in resources]
    registry: Registry = referencing.Registry().with_resources(resources_by_address).crawl()
    return registry


@dataclass(slots=True)
class _Walk:
    """Traversal of everything that a schema reaches. seen: ids of its mappings. entry_count: number of values read so
    far.
    """

    draft: Draft
    others: Mapping[str, Schema]
    seen: set[int] = field(default_factory=set)
    entry_count: int = 0
    target_ids: dict[int, int] = field(default_factory=dict)  # id of a mapping with `$ref` -> id of its target

    def check(self, contents: Any) -> str | None:
        """First fault of a reference's target. Raises `SchemaFault` if the traversal becomes too large."""
        self.entry_count += entries_in(contents, MOST_ENTRIES)
        if self.entry_count > MOST_ENTRIES:
            raise SchemaFault(f"found more than {MOST_ENTRIES:,} values in a schema, expected fewer")
        return dialect_fault(contents, self.draft)


def reached_schemas(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> list[Schema]:
    """Every subschema and reference target, without duplicates and without a top-level `$schema`.

    Raises `SchemaFault` for content that the draft refuses, and for a reference to anything else.
    """
    walk = _Walk(draft, others)
    fault = walk.check(schema)
    if fault is not None:
        raise SchemaFault(fault)
    dialect = referencing.jsonschema.specification_with(draft.META_SCHEMA["$schema"])
    root = dialect.create_resource(without_dialect(schema))
    resolver = registry_of(schema, others, draft).resolver_with_root(root)
    reached = list(_subschemas(root, resolver, walk))
    for contents, inner in reached:  # grows during the loop
        for keyword in sorted(REFERENCE_KEYWORDS & contents.keys()):
            target = _follow(str(contents[keyword]), inner, walk)
            if keyword == "$ref":
                _refuse_circle(contents, target.contents, walk)
            reached += _subschemas(dialect.create_resource(target.contents), target.resolver, walk)
    return [contents for contents, _ in reached]


def _refuse_circle(contents: Schema, target: Any, walk: _Walk) -> None:
    """Raise `SchemaFault` for a circular chain of references, which no value can satisfy."""
    walk.target_ids[id(contents)] = target_id = id(target)
    while target_id in walk.target_ids:
        if target_id == id(contents):
            raise SchemaFault(f"$ref: found {contents['$ref']!r}, which leads to itself, expected it to end elsewhere")
        target_id = walk.target_ids[target_id]


def _subschemas(resource: Any, resolver: Any, walk: _Walk) -> Iterator[tuple[Schema, Any]]:
    pending = [(resource, resolver)]
    while pending:
        resource, resolver = pending.pop()
        if not isinstance(resource.contents, dict) or id(resource.contents) in walk.seen:
            continue
        walk.seen.add(id(resource.contents))
        yield resource.contents, resolver
        pending += [(child, resolver.in_subresource(child)) for child in resource.subresources()]


def _follow(reference: str, resolver: Any, walk: _Walk) -> Any:
    """Resolve a reference. Raises `SchemaFault` if the target is unknown or not a schema."""
    try:
        target = resolver.lookup(reference)
    except (referencing.exceptions.Unresolvable, ValueError):  # ValueError: "http://[" is not an address
        raise SchemaFault(f"$ref: found {reference!r}, {_expected_of(reference, walk.others)}") from None
    name = reference.partition("#")[0]
    if name in walk.others:
        refuse_other_draft(name, walk.others[name], walk.draft)
    fault = None if id(target.contents) in walk.seen else walk.check(target.contents)
    if fault is not None:
        raise SchemaFault(f"$ref: found {reference!r}, expected it to lead to a schema: {fault}")
    return target


def _expected_of(reference: str, others: Mapping[str, Schema]) -> str:
    name = reference.partition("#")[0]
    if name in others:
        return f"expected a place inside the schema {name!r}"
    near = difflib.get_close_matches(name, others, n=1)
    nearest = f" (the nearest is {near[0]})" if near else ""
    alternatives = f", or one of the rubric's schemas: {', '.join(sorted(others))}{nearest}" if others else ""
    return f"expected a place inside the schema{alternatives}"
