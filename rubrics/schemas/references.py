"""Targets of a schema's references: within it or in the schemas beside it, and nowhere else."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import referencing
import referencing.exceptions
import referencing.jsonschema

from gradebook.rubrics.schemas.drafts import (
    Draft,
    Schema,
    SchemaFault,
    dialect_fault,
    entries_in,
    refuse_other_draft,
    without_dialect,
)

REFERENCE_KEYWORDS = {"$ref", "$dynamicRef", "$recursiveRef"}
MOST_ENTRIES = 20_000  # of a schema and its references

Registry = referencing.Registry[Any]


def registry_of(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> Registry:
    """Register the other schemas by name, resolved against every base that a top-level `$id` sets."""
    dialect = referencing.jsonschema.specification_with(draft.META_SCHEMA["$schema"])
    resources = [(name, dialect.create_resource(without_dialect(other))) for name, other in others.items()]
    bases = {dialect.create_resource(schema).id() or "", *(resource.id() or "" for _, resource in resources)}
    named = [(urljoin(base, name), resource) for base in sorted(bases) for name, resource in resources]
    registry: Registry = referencing.Registry().with_resources(named).crawl()
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
    led_to: dict[int, int] = field(default_factory=dict)  # target of each `$ref`, by the ids of both mappings

    def check(self, contents: Any) -> str | None:
        """First fault of a reference's target. Raises `SchemaFault` if the traversal becomes too large."""
        self.entry_count += entries_in(contents, MOST_ENTRIES)
        if self.entry_count > MOST_ENTRIES:
            raise SchemaFault(f"found more than {MOST_ENTRIES:,} values in a schema, expected fewer")
        return dialect_fault(contents, self.draft)


def reached_schemas(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> list[Schema]:
    """Every subschema and reference target, once each, without a top-level `$schema`.

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
    """Raise `SchemaFault` for a chain of references that leads back to this one: no value is ever valid there."""
    walk.led_to[id(contents)] = place = id(target)
    while place in walk.led_to:
        if place == id(contents):
            raise SchemaFault(f"$ref: found {contents['$ref']!r}, which leads to itself, expected it to end elsewhere")
        place = walk.led_to[place]


def _subschemas(resource: Any, resolver: Any, walk: _Walk) -> Iterator[tuple[Schema, Any]]:
    waiting = [(resource, resolver)]
    while waiting:
        resource, resolver = waiting.pop()
        if not isinstance(resource.contents, dict) or id(resource.contents) in walk.seen:
            continue
        walk.seen.add(id(resource.contents))
        yield resource.contents, resolver
        waiting += [(child, resolver.in_subresource(child)) for child in resource.subresources()]


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
    beside = f", or one of the rubric's schemas: {', '.join(sorted(others))}{nearest}" if others else ""
    return f"expected a place inside the schema{beside}"
