"""YAML text as plain values with line numbers, so that a fault can name its place."""

import contextlib
import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from gradebook.rubrics.model.errors import MOST_FAULTS, Fault

MOST_NODES = 100_000
DEEPEST = 50
CHARACTERS_PER_NODE = 100

FilePath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset({"str", "int", "float", "bool", "null", "timestamp"})
PLAIN_NUMBER = re.compile(r"0|[1-9][0-9]*")
_SPECIAL_NUMBER = re.compile(r"[-+]?(0[0-9bx_].*|.*:.*)", re.IGNORECASE)
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml if PyYAML was built with it


@dataclass(frozen=True, slots=True)
class YamlText:
    """Parsed YAML file. values: None if no mapping could be read; `faults` gives the reason.

    lines: line (from 1) of each key and list entry, by its path: ("criteria", 2, "weight").
    """

    path: str
    values: dict[str, Any] | None
    lines: dict[FilePath, int]
    faults: tuple[Fault, ...]

    def line_of(self, place: FilePath) -> int | None:
        """Line of that place, or of its nearest ancestor in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


class _ParseError(Exception):
    """A fault that ends the parse, without values."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(line, message)
        self.line = line
        self.message = message


@dataclass(slots=True)
class _ParseState:
    path: str
    lines: dict[FilePath, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    node_count: int = 0

    def note(self, node: yaml.Node, message: str) -> None:
        fault = Fault(self.path, _line(node), message, "syntax")
        if len(self.faults) == MOST_FAULTS - 1:
            raise _ParseError(fault.line, message)
        self.faults.append(fault)


def read_yaml(text: str | bytes, path: str) -> YamlText:
    """Parse a YAML mapping. All faults that do not stop the parse are reported together."""
    state = _ParseState(path)
    try:
        values = _mapping_at_the_top(compose_yaml(_decode(text)), state)
    except _ParseError as stop:
        return YamlText(path, None, state.lines, (*state.faults, Fault(path, stop.line, stop.message, "syntax")))
    return YamlText(path, values, state.lines, tuple(state.faults))


def _decode(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _ParseError(line, f"found the byte 0x{text[error.start]:02x}, expected text in UTF-8") from None


def compose_yaml(text: str) -> yaml.Node | None:
    """Nodes of the text; depth and size are checked first, as composing is recursive and takes much memory."""
    try:
        _refuse_large_trees(text)
        node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _syntax_fault(error, text) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _ParseError(line, f"found the character {chr(error.character)!r}, expected printable text") from None
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise _ParseError(line, "found half of a surrogate pair, expected whole characters") from None
    return node


def _refuse_large_trees(text: str) -> None:
    depth = node_count = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            continue
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        node_count += isinstance(event, yaml.NodeEvent)
        if depth > DEEPEST:
            raise _ParseError(_line(event), f"found more than {DEEPEST} levels of nesting, expected fewer")
        if node_count > 2 * MOST_NODES:  # each value may have a key
            raise _ParseError(_line(event), f"found more than {MOST_NODES:,} values, expected fewer")


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> _ParseError:
    mark = error.problem_mark or error.context_mark
    if "unexpected end of stream" in str(error.problem):
        mark = error.context_mark or mark  # report an unclosed quote where it opens, not at the end of the file
    if mark is None:
        return _ParseError(None, f"expected YAML: {error.problem or error.context}")
    rows = text.split("\n")
    row = rows[mark.line] if mark.line < len(rows) else ""
    if "\t" in row[: len(row) - len(row.lstrip())]:
        return _ParseError(mark.line + 1, "found a tab in the indentation, expected spaces")
    reason = ", ".join(part for part in (error.context, error.problem) if part)
    return _ParseError(mark.line + 1, f"expected YAML: {reason}")


def _mapping_at_the_top(node: yaml.Node | None, state: _ParseState) -> dict[str, Any]:
    if node is None:
        raise _ParseError(1, "found an empty file, expected lines of `key: value`")
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise _ParseError(_line(node), f"found {kind} at the top of the file, expected lines of `key: value`")
    state.lines[()] = _line(node)
    return _mapping(node, (), state)


def _value(node: yaml.Node, place: FilePath, state: _ParseState) -> Any:
    _count(node, place, state)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, state)
    if isinstance(node, yaml.SequenceNode):
        return _sequence(node, place, state)
    return _scalar(node, state)


def _count(node: yaml.Node, place: FilePath, state: _ParseState) -> None:
    """Stop the parse if aliases expand to too many nodes: a few lines can mean 10^9 nodes, or a cycle."""
    state.node_count += 1
    if isinstance(node, yaml.ScalarNode):
        state.node_count += len(node.value) // CHARACTERS_PER_NODE
    if len(place) > DEEPEST:
        raise _ParseError(_line(node), f"found more than {DEEPEST} levels of nesting through aliases, expected fewer")
    if state.node_count > MOST_NODES:
        raise _ParseError(
            _line(node), f"found more than {MOST_NODES:,} values with the aliases written out, expected fewer"
        )


def _mapping(node: yaml.MappingNode, place: FilePath, state: _ParseState) -> dict[str, Any]:
    if node.tag != _TAG + "map":
        state.note(node, f"found the tag {_tag_name(node)}, expected a mapping without one")
    values: dict[str, Any] = {}
    first_lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        key = _key(key_node, state)
        if key is None:
            continue
        if key in values:
            first = first_lines[key]
            state.note(key_node, f"found the key {key!r} again (first in line {first}), expected each key once")
            continue
        first_lines[key] = state.lines[(*place, key)] = _line(key_node)
        values[key] = _value(value_node, (*place, key), state)
    return values


def _key(node: yaml.Node, state: _ParseState) -> str | None:
    if node.tag == _TAG + "merge":
        state.note(node, "found the merge key <<, expected its keys written out (an alias for a whole value is fine)")
        return None
    if isinstance(node, yaml.ScalarNode) and node.tag in (_TAG + "str", _TAG + "timestamp"):
        return str(node.value)
    if isinstance(node, yaml.ScalarNode) and PLAIN_NUMBER.fullmatch(node.value):
        return str(node.value)  # the points of a scale are written this way
    key_text = repr(node.value) if isinstance(node, yaml.ScalarNode) else "a list or mapping"
    state.note(node, f"found the key {key_text}, expected text (quotes make it so)")
    return None


def _sequence(node: yaml.SequenceNode, place: FilePath, state: _ParseState) -> list[Any]:
    if node.tag != _TAG + "seq":
        state.note(node, f"found the tag {_tag_name(node)}, expected a list without one")
    entries = []
    for index, entry in enumerate(node.value):
        state.lines[(*place, index)] = _line(entry)
        entries.append(_value(entry, (*place, index), state))
    return entries


def _scalar(node: yaml.Node, state: _ParseState) -> Any:
    kind = node.tag.removeprefix(_TAG)
    if kind not in _SCALARS:
        state.note(node, f"found the tag {_tag_name(node)}, expected plain text, a number, true, false or null")
        return str(node.value)
    if kind in ("int", "float"):
        return _number(node, kind, state)
    if kind == "bool":
        return _truth(node, state)
    return None if kind == "null" else str(node.value)


def _truth(node: yaml.Node, state: _ParseState) -> bool | None:
    values = yaml.constructor.SafeConstructor.bool_values
    if node.value.lower() not in values:
        state.note(node, f"found {node.value[:40]!r}, expected true or false")
    return values.get(node.value.lower())


def _number(node: yaml.Node, kind: str, state: _ParseState) -> int | float | str:
    """Number as a person would read it; YAML's octal 010, 12:30 (750) and .nan are faults."""
    if not _SPECIAL_NUMBER.fullmatch(node.value):
        with contextlib.suppress(ValueError, OverflowError):  # a whole number of 400 digits does not fit a float
            number = int(node.value) if kind == "int" else float(node.value)
            if math.isfinite(number):
                return number
    state.note(node, f"found {node.value[:40]}, expected a plain decimal number, or quotes around text")
    return str(node.value)


def _tag_name(node: yaml.Node) -> str:
    tag = str(node.tag)
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


def _line(node: Any) -> int:  # a node or an event
    return int(node.start_mark.line) + 1
