"""YAML or JSON text with an optional list at the top, and the line of each place in YAML."""

import re
from pathlib import PurePath

from gradebook.rubrics.importers.foreign_file import Reading, open_json, open_yaml
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.text.plain_words import Place
from gradebook.rubrics.text.yaml_lines import YamlText, read_yaml

_START_OF_DOCUMENT = re.compile(r"\A((?:[ \t]*+(?:#[^\n]*+)?\n)*+)---[ \t]*(?=\n|#)")
_OPENS_WITH_BRACKET = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?\n)*+[ \t]*\[")
_LINE_IN_A_MESSAGE = re.compile(r"(?<=\(first in line )[0-9]+")


def open_list_or_mapping(text: str, path: str) -> Reading:
    """Parse a list or a mapping. Raises `RubricError` with every fault."""
    text = text.removeprefix("\ufeff")
    suffix = PurePath(path).suffix.lower()
    if suffix == ".json" or (suffix not in (".yaml", ".yml") and text.lstrip()[:1] in ("[", "{")):
        return open_json(text, path)
    found = read_yaml(text, path)
    reading = _open_list(text, path, found) if found.values is None else open_yaml(text, path)
    reading.stop_at_faults()
    return reading


def _open_list(text: str, path: str, as_mapping: YamlText) -> Reading:
    """Parse a list at the top as the value of a key in a line above it: `read_yaml` only accepts mappings."""
    text = _START_OF_DOCUMENT.sub(r"\1", text)
    if _OPENS_WITH_BRACKET.match(text):
        text = " " + text.replace("\n", "\n ")  # YAML requires brackets to be indented further than their key
    found = read_yaml(f"list:\n{text}", path)
    if found.values is None or not isinstance(found.values.get("list"), list):
        raise RubricError(as_mapping.faults)

    def line_of(place: Place) -> int | None:
        line = found.line_of(("list", *place))
        return None if line is None else max(line - 1, 1)

    faults = [_one_line_up(fault) for fault in found.faults]
    return Reading(path, found.values["list"], line_of=line_of, is_yaml=True, faults=faults)


def _one_line_up(fault: Fault) -> Fault:
    message = _LINE_IN_A_MESSAGE.sub(lambda line: str(int(line[0]) - 1), fault.message)
    return Fault(fault.path, None if fault.line is None else fault.line - 1, message)
