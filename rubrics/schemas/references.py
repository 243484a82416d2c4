"""Where the references of a schema lead: within it, or among the schemas that stand beside it, and nowhere else."""

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
MOST_ENTRIES = 20_000  # of a schema and of what it refers to

Registry = referencing.Registry[Any]


def registry_of(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> Registry:
    """The other schemas under their names, as references name them from wherever a top `$id` puts their schema."""
    dialect = referencing.jsonschema.specification_with(draft.META_SCHEMA["$schema"])
    resources = [(name, dialect.create_resource(without_dialect(other))) for name, other in others.items()]
    bases = {dialect.create_resource(schema).id() or "", *(resource.id() or "" for _, resource in resources)}
    named = [(urljoin(base, name), resource) for base in sorted(bases) for name, resource in resources]
    registry: Registry = referencing.Registry().with_resources(named).crawl()
    return registry


@dataclass(slots=True)
class _Walk:
    """A walk over what a schema reaches. seen: the ids of its mappings. entry_count: what was read of it so far."""

    draft: Draft
    others: Mapping[str, Schema]
    seen: set[int] = field(default_factory=set)
    entry_count: int = 0
    led_to: dict[int, int] = field(default_factory=dict)  # by `$ref`, from one mapping to another, by their ids

    def check(self, contents: Any) -> str | None:
        """What is wrong with what a reference leads to. Raises `SchemaFault` where there is too much of it all."""
        self.entry_count += entries_in(contents, MOST_ENTRIES)
        if self.entry_count > MOST_ENTRIES:
            raise SchemaFault(f"found more than {MOST_ENTRIES:,} values in a schema, expected fewer")
        return dialect_fault(contents, self.draft)


def reached_schemas(schema: Schema, others: Mapping[str, Schema], draft: Draft) -> list[Schema]:
    """Every subschema and what the references lead to, once each, without the `$schema` at their tops.

    Raises `SchemaFault` for what the draft refuses, and for a reference that leads elsewhere.
    """
    walk = _Walk(draft, others)
    fault = walk.check(schema)
    if fault is not None:
        raise SchemaFault(fault)
    dialect = referencing.jsonschema.specification_with(draft.META_SCHEMA["$schema"])
    root = dialect.create_resource(without_dialect(schema))
    resolver = registry_of(schema, others, draft).resolver_with_root(root)
    reached = list(_subschemas(root, resolver, walk))
    for contents, inner in reached:  # it grows while it is gone through
        for keyword in sorted(REFERENCE_KEYWORDS & contents.keys()):
            target = _follow(str(contents[keyword]), inner, walk)
            if keyword == "$ref":
                _refuse_circle(contents, target.contents, walk)
            reached += _subschemas(dialect.create_resource(target.contents), target.resolver, walk)
    return [contents for contents, _ in reached]


def _refuse_circle(contents: Schema, target: Any, walk: _Walk) -> None:
    """Raises `SchemaFault` where references follow each other back to this one: nothing is ever valid there."""
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
    """What a reference leads to. Raises `SchemaFault` where that is nothing known, or no schema."""
    try:
        target = resolver.lookup(reference)
    except (referencing.exceptions.Unresolvable, ValueError):  # ValueError: "http://[" is no address
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
