"""A rubric as readable YAML that parses to the same version."""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from gradebook.rubrics.files.digest import LARGEST_EXACT
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place, place_text
from gradebook.rubrics.text.yaml_lines import DEEPEST, PLAIN_NUMBER

WIDEST = 110  # maximum columns of a mapping or list on one line
WIDEST_TEXT = 120  # maximum columns of a text before it is folded

_TAG = "tag:yaml.org,2002:"
_NO_LIMIT = 1_000_000_000
# Texts that other YAML parsers, but not PyYAML, read as a number or a bool: 1e5, 0o17, y.
_LOOKS_LIKE_A_VALUE = re.compile(
    r"0o[0-7]+|0x[0-9a-f]+|[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|[-+]?\.(?:inf|nan)|[yn]", re.IGNORECASE
)
_WORD = r"[^\s\x00-\x1f\x7f-\x9f\ufeff]+"
_LINE = rf"{_WORD}(?: +{_WORD})*"
_FOLDABLE = re.compile(rf"{_WORD}(?: {_WORD})*")
_LITERAL = re.compile(rf"{_LINE}(?:\n+ *{_LINE})+\n?|{_LINE}\n")
_BREAK = re.compile("[\n\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def rubric_yaml(rubric: Rubric) -> str:
    """The rubric as YAML, keys in the model's order, without defaults; `parse_rubric` restores the same digest.

    Raises `RubricError` if the metadata has a value that YAML cannot represent: nan, or more than 50 levels of nesting.
    """
    return values_yaml(_dump(rubric))


def rubric_values(rubric: Rubric) -> dict[str, Any]:
    """The rubric as plain values under the file's keys, without defaults."""
    values: dict[str, Any] = _with_lists(_dump(rubric))
    return values


def _dump(rubric: Rubric) -> dict[str, Any]:
    return rubric.model_dump(by_alias=True, exclude_defaults=True)


def _with_lists(value: Any) -> Any:
    """Convert the model's tuples to lists."""
    if isinstance(value, dict):
        return {key: _with_lists(entry) for key, entry in value.items()}
    return [_with_lists(entry) for entry in value] if isinstance(value, list | tuple) else value


def values_yaml(values: dict[str, Any]) -> str:
    """Plain values as YAML: short lists and mappings on one line, long texts folded.

    Raises `RubricError` with every value that the parser would refuse.
    """
    faults = tuple(Fault("rubric", None, message) for message in _unwritable(values, ()))
    if faults:
        raise RubricError(faults)
    return _serialise(_block_mapping(values, (), 0))


def _serialise(node: yaml.Node) -> str:
    text: str = yaml.serialize(node, Dumper=_Writer, allow_unicode=True, width=_NO_LIMIT)
    return text


class _Writer(yaml.SafeDumper):
    """Indents lists, breaks only folded lines, and prefers double quotes if no escapes are needed."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def choose_scalar_style(self) -> Any:
        style = super().choose_scalar_style()
        text = str(getattr(self.event, "value", ""))
        is_free_of_escapes = "\\" not in text and '"' not in text
        is_broken = style != "|" and _BREAK.search(text)  # single quotes would turn each kind of break into \n
        return '"' if is_broken or (style == "'" and is_free_of_escapes) else style

    def write_folded(self, text: str) -> None:
        self.best_width = WIDEST_TEXT
        super().write_folded(text)
        self.best_width = _NO_LIMIT


def _unwritable(value: Any, place: Place) -> Iterator[str]:
    """Values that the parser of rubric files would refuse or change."""
    if len(place) >= DEEPEST and isinstance(value, dict | list | tuple):
        yield f"{place_text(place)}: found more than {DEEPEST} levels of nesting, expected fewer"
    elif isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str | int) or isinstance(key, bool):
                yield f"{place_text(place)}: found the key {key!r}, expected text"
            else:
                yield from _unwritable(str(key), (*place, str(key)))
                yield from _unwritable(entry, (*place, str(key)))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _unwritable(entry, (*place, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{place_text(place)}: found {value}, expected a finite number"
    elif isinstance(value, str) and _SURROGATE.search(value):
        yield f"{place_text(place)}: found half of a surrogate pair, expected whole characters"
    elif not isinstance(value, str | int | float | None):
        expected = "text, a number, true, false, null, a list or a mapping"
        yield f"{place_text(place)}: found a value of type {type(value).__name__}, expected {expected}"


def _node(value: Any, place: Place, indent: int, column: int) -> yaml.Node:
    """Node of a value, on one line if it is short and not always written in block style.

    indent: column of its own lines; column: column where its single line begins.
    """
    if not isinstance(value, dict | list | tuple):
        return _scalar(value, column)
    is_at_length = place[:1] == ("criteria",) and len(place) < 3
    if not value or not (is_at_length or _holds_lists(value)):
        flow = _flow(value)
        if _is_short(value, flow, column):
            return flow
    return _block_mapping(value, place, indent) if isinstance(value, dict) else _block_list(value, place, indent)


def _is_short(value: Any, flow: yaml.Node, column: int) -> bool:
    """Whether a value fits on the line; the first test avoids serialising long values."""
    return len(str(value)) < 3 * WIDEST and column + len(_serialise(flow).rstrip("\n")) <= WIDEST


def _flow(value: Any) -> yaml.Node:
    if isinstance(value, dict):
        pairs = [(_key(key), _flow(entry)) for key, entry in value.items()]
        return yaml.MappingNode(_TAG + "map", pairs, flow_style=True)
    if isinstance(value, list | tuple):
        return yaml.SequenceNode(_TAG + "seq", [_flow(entry) for entry in value], flow_style=True)
    return _scalar(value, 0)


def _holds_lists(value: Any) -> bool:
    """Whether a list contains mappings or lists; it then has one entry per line."""
    return not isinstance(value, dict) and any(isinstance(entry, dict | list | tuple) for entry in value)


def _block_mapping(value: dict[str, Any], place: Place, indent: int) -> yaml.MappingNode:
    pairs = []
    for key, entry in value.items():
        column = indent + len(str(key)) + 2
        pairs.append((_key(key), _node(entry, (*place, key), indent + 2, column)))
    return yaml.MappingNode(_TAG + "map", pairs, flow_style=not pairs)


def _block_list(value: Any, place: Place, indent: int) -> yaml.SequenceNode:
    entries = [_node(entry, (*place, index), indent + 2, indent + 2) for index, entry in enumerate(value)]
    return yaml.SequenceNode(_TAG + "seq", entries, flow_style=not entries)


def _key(key: str | int) -> yaml.ScalarNode:
    """Node of a key; whole numbers, as the points of a scale, have no quotes."""
    if PLAIN_NUMBER.fullmatch(str(key)):
        return yaml.ScalarNode(_TAG + "int", str(key))
    return _text(str(key))


def _scalar(value: Any, column: int) -> yaml.ScalarNode:
    if value is None:
        return yaml.ScalarNode(_TAG + "null", "null")
    if isinstance(value, bool):
        return yaml.ScalarNode(_TAG + "bool", str(value).lower())
    if isinstance(value, int | float):
        return _number(value)
    if _LITERAL.fullmatch(value):
        return yaml.ScalarNode(_TAG + "str", value, style="|")
    if column + len(value) > WIDEST_TEXT and _FOLDABLE.fullmatch(value):
        return yaml.ScalarNode(_TAG + "str", value, style=">")
    return _text(value)


def _text(text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode(_TAG + "str", text, style='"' if _LOOKS_LIKE_A_VALUE.fullmatch(text) else None)


def _number(number: float) -> yaml.ScalarNode:
    """Node of a decimal number: 1.0 as 1, as in its digest, and 1e-07 as 1.0e-07, which YAML reads as a number."""
    if isinstance(number, int) or (number.is_integer() and abs(number) <= LARGEST_EXACT):
        return yaml.ScalarNode(_TAG + "int", str(int(number)))
    digits, mark, exponent = repr(number).partition("e")
    return yaml.ScalarNode(_TAG + "float", digits + (".0" if mark and "." not in digits else "") + mark + exponent)
