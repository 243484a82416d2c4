"""Checks of JSON in an output: its presence and its validity against a JSON Schema."""

from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.json_text import Extract, FoundJson, NotJson, TooManyBrackets, find_json
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows

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
        found = find_json(text)
    except NotJson as error:
        return RowFinding(False, str(error))
    except TooManyBrackets as error:
        return RowFinding(None, reason=str(error))
    count = _count_kind(found, settings.kind)
    if count == 0:
        reason = f": {found.fault}" if found.fault else ""
        return RowFinding(False, f"found no {NAMES[settings.kind]}{reason}")
    if count > 1 and settings.is_only_one:
        return RowFinding(False, f"found {count} {PLURALS[settings.kind]}, expected one")
    return RowFinding(True)


def _count_kind(found: FoundJson, kind: str) -> int:
    counts = {"object": len(found.objects), "array": len(found.arrays)}
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
