"""Schemas of a rubric: names of files beside the rubric are replaced by their content."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradebook.rubrics.check_kit.json_text import NotJson, count_levels, parse_json
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.text.named_files import UnreadableFile, read_below
from gradebook.rubrics.text.plain_words import Place, place_text, quote_value
from gradebook.rubrics.text.yaml_lines import DEEPEST, read_yaml

RULE = "unsafe-schema"
SUFFIXES = (".json", ".yaml", ".yml")
MOST_BYTES = 1_000_000
MOST_LINES_SHOWN = 3
MOST_LEVELS = DEEPEST - 5  # leaves 5 levels for the rubric around the schema

Values = dict[str, Any]
FoundFault = tuple[Place, str, str]


def write_out_schemas(values: Values, folder: Path) -> tuple[Values, list[FoundFault]]:
    """Replace the names of schema files in a rubric's values by their content. Returns the faults too.

    folder: location of the files. An unreadable file becomes an empty schema, so that references to it are not reported
    as well.
    """
    entries = values.get("schemas")
    if not isinstance(entries, dict):
        return values, []
    schemas: Values = {}
    faults: list[FoundFault] = []
    for name, entry in entries.items():
        try:
            schemas[name] = read_schema(entry, folder) if isinstance(entry, str) else entry
        except ModelFault as fault:
            schemas[name] = {}
            place: Place = ("schemas", name)
            faults.append((place, f"{place_text(place)}: {fault}", fault.rule))
    return {**values, "schemas": schemas}, faults


def read_schema(name: str, folder: Path) -> Values:
    """Read a schema's file below a folder. Raises `ModelFault`."""
    content = _content(name, folder)
    schema = _from_json(content) if name.endswith(".json") else _from_yaml(name, content)
    if not isinstance(schema, dict):
        kind = "a list" if isinstance(schema, list) else "a single value"
        raise _fault(f"found {kind} in {name}, expected a JSON Schema: a mapping of keys to values")
    if count_levels(schema) > MOST_LEVELS:
        raise _fault(f"found more than {MOST_LEVELS} levels of nesting in {name}, expected fewer")
    try:
        json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise _fault(f"found a value that JSON can't hold in {name}, expected plain numbers and text") from None
    return schema


def _content(name: str, folder: Path) -> bytes:
    """Read the file. Raises `ModelFault` if it is not a file below the folder."""
    if not name.endswith(SUFFIXES):
        raise _fault(f"found {quote_value(name)}, expected a JSON Schema, or a file that ends in {', '.join(SUFFIXES)}")
    try:
        return read_below(name, folder, MOST_BYTES)
    except UnreadableFile as error:
        raise _fault(str(error)) from None


def _from_json(content: bytes) -> Any:
    try:
        text = content.decode("utf-8-sig")
        schema = parse_json(text)
    except (NotJson, UnicodeDecodeError) as error:
        raise _fault(f"found text that is not JSON ({error}), expected a JSON Schema") from None
    json.loads(text, object_pairs_hook=_refuse_repeats, parse_int=str)
    return schema


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a repeated key, which JSON allows: the last one would count. Raises `ModelFault`."""
    counts = Counter(key for key, _ in pairs)
    if any(count > 1 for count in counts.values()):
        raise _fault("found a key twice in an object, expected each key once")


def _from_yaml(name: str, content: bytes) -> Any:
    yaml_text = read_yaml(content, name)
    if yaml_text.faults:
        lines = ", ".join(str(fault.line) for fault in yaml_text.faults[:MOST_LINES_SHOWN])
        raise _fault(f"found faults in {name} (YAML, at line {lines}), expected a file without")
    return yaml_text.values


def _fault(message: str) -> ModelFault:
    return ModelFault(RULE, message)


def schemas_in(values: Values) -> dict[str, Values]:
    """Schemas in a rubric's values that are mappings."""
    entries = values.get("schemas")
    pairs: Iterator[tuple[str, Any]] = iter(entries.items()) if isinstance(entries, dict) else iter(())
    return {name: entry for name, entry in pairs if isinstance(entry, dict)}
