"""The rubric file as a JSON Schema, with which an editor completes and checks the YAML."""

import copy
import re
from typing import Any

from gradebook.rubrics.model.rubric import Rubric

SCHEMA_ID = "urn:gradebook:rubric"  # a name, not an address: nothing is fetched
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_EXTENDS = "the name or file of a rubric whose criteria this one takes, or a list of them"
_USE = "the id of a criterion of the other rubric; the keys beside it take the place of that one's, null takes one away"


def editor_schema() -> Schema:
    """The schema of a rubric file (draft 2020-12), with every check's settings and with `extends` and `use`.

    It is wider than the reading of a file where one place depends on another: weights, ids that repeat, categories.
    """
    schema = _tidy(Rubric.model_json_schema(by_alias=True))
    definitions: dict[str, Schema] = schema.pop("$defs")
    _widen_what_yaml_reads(schema, definitions)
    _add_checks(definitions)
    _relate_keys(definitions["Criterion"])
    definitions["UsedCriterion"] = _used_criterion(definitions["Criterion"])
    _add_extends(schema)
    return {"$schema": DIALECT, "$id": SCHEMA_ID, **schema, "title": "gradebook rubric", "$defs": definitions}


def _tidy(node: Any) -> Any:
    """Without pydantic's titles and OpenAPI's discriminators; descriptions on one line, without links."""
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
    """A level's id may be a whole number, and a bare `missing: null` is the word."""
    for model, key in (("Level", "id"), ("JudgedExample", "level")):
        level_id = definitions[model]["properties"][key]
        pattern = level_id.pop("pattern")
        del level_id["type"]
        level_id["anyOf"] = [{"type": "string", "pattern": pattern}, {"type": "integer", "minimum": 0}]
    missing = schema["properties"]["missing"]
    del missing["type"]
    missing["enum"] = [*missing["enum"], None]


def _add_checks(definitions: dict[str, Schema]) -> None:
    """Name the checks, and tie each one's settings to its name."""
    from gradebook.rubrics.checks.registry import check_names, find_check  # here: they take pyarrow's compute module

    method = definitions["CheckMethod"]
    names = check_names()
    method["properties"]["check"]["enum"] = list(names)
    method["allOf"] = []
    for name in names:
        model = find_check(name).settings_model
        settings = _tidy(model.model_json_schema(by_alias=True))
        definitions |= settings.pop("$defs", {})
        definitions[model.__name__] = settings
        then: Schema = {"properties": {"settings": {"$ref": f"#/$defs/{model.__name__}"}}}
        if "required" in settings:
            then["required"] = ["settings"]
        method["allOf"].append({"if": {"properties": {"check": {"const": name}}, "required": ["check"]}, "then": then})


def _relate_keys(criterion: Schema) -> None:
    """What the model holds a criterion to across its keys, as far as a schema can say it."""
    judged = {"properties": {"method": {"properties": {"type": {"enum": ["judge", "ratings"]}}, "required": ["type"]}}}
    some_levels = {"properties": {"levels": {"minItems": 2}}, "required": ["levels"]}
    some_scale = {"properties": {"scale": {"type": "object"}}, "required": ["scale"]}
    gate = {"properties": {"gate": {"const": True}}, "required": ["gate"]}
    criterion["allOf"] = [
        {"if": judged | {"required": ["method"]}, "then": {"anyOf": [some_levels, some_scale]}},
        {"if": gate, "then": {"properties": {"weight": {"type": "null"}}}},
    ]


def _used_criterion(criterion: Schema) -> Schema:
    """An entry with `use`: any of a criterion's keys, or null to take one away."""
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
    """`extends` lets `criteria` be left out, and `use` stand in them."""
    name = {"type": "string", "minLength": 1}
    names = {"type": "array", "items": name, "minItems": 1}
    schema["properties"]["extends"] = {"anyOf": [name, names], "description": _EXTENDS}
    schema["required"] = [key for key in schema["required"] if key != "criteria"]
    own = {"$ref": "#/$defs/Criterion"}
    is_used = {"type": "object", "required": ["use"]}
    schema["properties"]["criteria"]["items"] = {"if": is_used, "then": {"$ref": "#/$defs/UsedCriterion"}, "else": own}
    schema["if"] = {"required": ["extends"]}
    schema["else"] = {"required": ["criteria"], "properties": {"criteria": {"items": own}}}
