"""Change of one value in a YAML text that keeps its comments and its layout."""

import json
import re
import textwrap
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import yaml

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.plain_words import Place, place_text
from gradebook.rubrics.text.yaml_lines import compose_yaml, read_yaml

WIDEST = 110  # columns of a folded text
_BLOCK_HEAD = re.compile(r"[|>][-+0-9]*[^\n]*\n")


def set_value(text: str, place: Place, value: str | float | None, before: tuple[str, ...] = ()) -> str:
    """Text with another value at a place, and all else unchanged.

    The place is a key of a mapping. before: keys above which a new key is inserted. Raises `InputError` if the place
    can't be edited (the mapping has none of these keys, or other places share the value by an alias), `RubricError` if
    the text is no YAML.
    """
    old_text = read_yaml(text, "text")
    root = None if old_text.values is None or old_text.faults else compose_yaml(text)
    pair = None if root is None else _pair_at(root, place)
    mapping = None if root is None else _node_at(root, place[:-1])
    if old_text.values is not None and isinstance(mapping, yaml.MappingNode):
        new_value = value if pair is None or not isinstance(value, str) else _ended_like(pair[1], value)
        expected_values = _with_value(old_text.values, place, new_value)
        for candidate in (
            _insertions(text, mapping, place, new_value, before)
            if pair is None
            else _rewritten(text, pair[1], new_value)
        ):
            edited = read_yaml(candidate, "text")
            if not edited.faults and edited.values == expected_values:
                return candidate
    fault = f"a value of {place_text(place)} that can't be written without another change"
    raise InputError(place_text(place), fault, "an edit of the text itself")


def _node_at(node: yaml.Node | None, place: Place) -> yaml.Node | None:
    for key in place:
        if isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == key), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
        else:
            return None
    return node


def _pair_at(root: yaml.Node, place: Place) -> tuple[yaml.Node, yaml.Node] | None:
    """Key and value of a place; None if the mapping around it lacks the key."""
    mapping = _node_at(root, place[:-1])
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else []
    return next(((key, value) for key, value in pairs if key.value == place[-1]), None)


def _with_value(values: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    changed_values: Any = deepcopy(values)
    around = changed_values
    for key in place[:-1]:
        around = around[key]
    around[place[-1]] = value
    whole: dict[str, Any] = changed_values
    return whole


def _ended_like(node: yaml.Node, value: str) -> str:
    """Value with the trailing line end of a block text, which an edit form drops."""
    is_ended = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") and str(node.value).endswith("\n")
    return value.rstrip("\n") + "\n" if is_ended else value


def _rewritten(text: str, node: yaml.Node, value: str | float | None) -> Iterator[str]:
    """Candidate texts with another scalar in place of a node; the node's style first."""
    if not isinstance(node, yaml.ScalarNode):
        return
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(value, str) and node.style in ("|", ">"):
        yield text[:start] + _block(text, node, value) + text[end:]
    text_after = text[end:]
    for scalar in _scalars(value, node.style):
        yield text[:start] + scalar + ("\n" if node.style in ("|", ">") and text_after[:1] != "\n" else "") + text_after


def _scalars(value: str | float | None, style: str | None = None) -> Iterator[str]:
    """Value as YAML scalars to try: plain before quoted, unless it was quoted."""
    if not isinstance(value, str):
        yield "null" if value is None else f"{value:.15g}"
        return
    if style == "'":
        yield "'" + value.replace("'", "''") + "'"
    if style != '"' and value.isprintable():
        yield value
    yield json.dumps(value, ensure_ascii=False)


def _block(text: str, node: yaml.ScalarNode, value: str) -> str:
    """Value as a block with the header and indentation of the block that it replaces."""
    start, end = node.start_mark.index, node.end_mark.index
    head = _BLOCK_HEAD.match(text, start)
    body = text[head.end() : end] if head else ""
    first = next((line for line in body.split("\n") if line.strip()), "  ")
    indent = first[: len(first) - len(first.lstrip(" "))]
    lines = value.rstrip("\n").split("\n")
    if node.style == ">":
        width = max(20, WIDEST - len(indent))
        folded = [textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""] for line in lines]
        lines = [line for number, part in enumerate(folded) for line in ([""] if number else []) + part]
    trailing_lines = re.search(r"\n*\Z", body)
    gap = "\n" * max(1, len(trailing_lines[0]) if trailing_lines else 1)  # keep empty lines below the block
    return (head[0] if head else "|\n") + "\n".join(indent + line if line else "" for line in lines) + gap


def _insertions(
    text: str, mapping: yaml.MappingNode, place: Place, value: str | float | None, before: tuple[str, ...]
) -> Iterator[str]:
    """Candidate texts with a new key above an existing key."""
    nodes = {key.value: key for key, _ in mapping.value}
    anchor = next((nodes[name] for name in before if name in nodes), None)
    if anchor is None:
        return
    start = anchor.start_mark.index
    between = ", " if mapping.flow_style else "\n" + " " * anchor.start_mark.column
    for scalar in _scalars(value):
        yield f"{text[:start]}{place[-1]}: {scalar}{between}{text[start:]}"
