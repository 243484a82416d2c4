"""JSON Schema of the rubric file, for completion and checks in an editor."""

import copy
import re
from typing import Any

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.model.taxonomy import SHIPPED_TAXONOMIES
from gradebook.rubrics.text.field_descriptions import DescribedSchema

SCHEMA_ID = "urn:gradebook:rubric"  # a name, not an address: nothing is fetched
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_EXTENDS = "name or file of a rubric whose criteria this one takes over, or a list of them"
_USE = "id of a criterion of the other rubric; keys given here replace its own, and null removes one"


def editor_schema() -> Schema:
    """Schema of a rubric file (draft 2020-12), with every check's settings and with `extends` and `use`.

    The schema is more permissive than the parser for rules across places: weights, repeated ids, categories.
    """
    schema = _tidy(Rubric.model_json_schema(by_alias=True, schema_generator=DescribedSchema))
    definitions: dict[str, Schema] = schema.pop("$defs")
    _widen_what_yaml_reads(schema, definitions)
    _add_checks(definitions)
    _relate_keys(definitions["Criterion"])
    definitions["UsedCriterion"] = _used_criterion(definitions["Criterion"])
    _add_extends(schema)
    return {"$schema": DIALECT, "$id": SCHEMA_ID, **schema, "title": "gradebook rubric", "$defs": definitions}


def _tidy(node: Any) -> Any:
    """Remove pydantic's titles and OpenAPI's discriminators; descriptions become one line without links."""
    if isinstance(node, list):
        return [_tidy(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    tidied = {}
    for key, entry in node.items():
        if (key == "title" and isinstance(entry, str)) or (key == "discriminator" and "propertyName" in entry):
            continue
        is_prose = key == "description" and isinstance(entry, str)
        tidied[key] = _LINK.sub(r"\1", " ".join(entry.split())) if is_prose else _tidy(entry)
    return tidied


def _widen_what_yaml_reads(schema: Schema, definitions: dict[str, Schema]) -> None:
    """Allow whole numbers as a level's id, the name of a taxonomy, and a bare `missing: null`."""
    for model, key in (("Level", "id"), ("JudgedExample", "level")):
        level_id = definitions[model]["properties"][key]
        pattern = level_id.pop("pattern")
        del level_id["type"]
        level_id["anyOf"] = [{"type": "string", "pattern": pattern}, {"type": "integer", "minimum": 0}]
    schema["properties"]["taxonomy"]["anyOf"].append({"enum": list(SHIPPED_TAXONOMIES)})
    missing = schema["properties"]["missing"]
    del missing["type"]
    missing["enum"] = [*missing["enum"], None]


def _add_checks(definitions: dict[str, Schema]) -> None:
    """List the checks, and require each check's settings for its name."""
    from gradebook.rubrics.checks.registry import check_names, find_check  # here: they import pyarrow's compute module

    schemas_with_check = [definitions["CheckMethod"], definitions["CheckCondition"]]
    names = check_names()
    for place in schemas_with_check:
        place["properties"]["check"]["enum"] = list(names)
        place["allOf"] = []
    for name in names:
        model = find_check(name).settings_model
        settings = _tidy(model.model_json_schema(by_alias=True, schema_generator=DescribedSchema))
        definitions |= settings.pop("$defs", {})
        definitions[model.__name__] = settings
        requirement: Schema = {"properties": {"settings": {"$ref": f"#/$defs/{model.__name__}"}}}
        if "required" in settings:
            requirement["required"] = ["settings"]
        for place in schemas_with_check:
            condition = {"properties": {"check": {"const": name}}, "required": ["check"]}
            place["allOf"].append({"if": condition, "then": copy.deepcopy(requirement)})


def _relate_keys(criterion: Schema) -> None:
    """Express the model's rules across keys of a criterion, as far as a schema can."""
    of_outputs = {"type": {"enum": ["judge", "ratings"]}, "unit": {"enum": ["output"]}}
    judged = {"properties": {"method": {"properties": of_outputs, "required": ["type"]}}}
    some_levels = {"properties": {"levels": {"minItems": 2}}, "required": ["levels"]}
    some_scale = {"properties": {"scale": {"type": "object"}}, "required": ["scale"]}
    gate = {"properties": {"gate": {"const": True}}, "required": ["gate"]}
    criterion["allOf"] = [
        {"if": judged | {"required": ["method"]}, "then": {"anyOf": [some_levels, some_scale]}},
        {"if": gate, "then": {"properties": {"weight": {"type": "null"}}}},
    ]


def _used_criterion(criterion: Schema) -> Schema:
    """Schema of an entry with `use`: any key of a criterion, or null to remove one."""
    properties = {
        key: {"anyOf": [copy.deepcopy(value), {"type": "null"}]} | _description_of(value)
        for key, value in criterion["properties"].items()
    }
    use = {"type": "string", "description": _USE}
    return {
        "type": "object",
        "description": "A criterion taken from the rubric under `extends`.",
        "properties": {"use": use, **properties},
        "required": ["use"],
        "additionalProperties": False,
    }


def _description_of(schema: Schema) -> Schema:
    return {"description": schema["description"]} if "description" in schema else {}


def _add_extends(schema: Schema) -> None:
    """Allow `extends`, which makes `criteria` optional and allows `use` in them."""
    name = {"type": "string", "minLength": 1}
    names = {"type": "array", "items": name, "minItems": 1}
    schema["properties"]["extends"] = {"anyOf": [name, names], "description": _EXTENDS}
    schema["required"] = [key for key in schema["required"] if key != "criteria"]
    criterion = {"$ref": "#/$defs/Criterion"}
    is_used = {"type": "object", "required": ["use"]}
    schema["properties"]["criteria"]["items"] = {
        "if": is_used,
        "then": {"$ref": "#/$defs/UsedCriterion"},
        "else": criterion,
    }
    schema["if"] = {"required": ["extends"]}
    schema["else"] = {"required": ["criteria"], "properties": {"criteria": {"items": criterion}}}
