"""One value of a YAML text written anew, with its comments and its layout as they were."""

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
    """Text in which the value at a place is another one, and all else is unchanged.

    The place is a key of a mapping. before: keys above which a new key is written; without one of them, and for what
    other places share by an alias, the text can't be edited here. Raises `InputError`, `RubricError` for no YAML.
    """
    old = read_yaml(text, "text")
    root = None if old.values is None or old.faults else compose_yaml(text)
    pair = None if root is None else _pair_at(root, place)
    mapping = None if root is None else _node_at(root, place[:-1])
    if old.values is not None and isinstance(mapping, yaml.MappingNode):
        given = value if pair is None or not isinstance(value, str) else _ended_like(pair[1], value)
        wanted = _with_value(old.values, place, given)
        for candidate in (
            _insertions(text, mapping, place, given, before) if pair is None else _rewritten(text, pair[1], given)
        ):
            new = read_yaml(candidate, "text")
            if not new.faults and new.values == wanted:
                return candidate
    found = f"a value of {place_text(place)} that can't be written without another change"
    raise InputError(place_text(place), found, "an edit of the text itself")


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
    changed: Any = deepcopy(values)
    around = changed
    for key in place[:-1]:
        around = around[key]
    around[place[-1]] = value
    whole: dict[str, Any] = changed
    return whole


def _ended_like(node: yaml.Node, value: str) -> str:
    """Value with the last line end of a block's text, which a form does not show."""
    is_ended = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") and str(node.value).endswith("\n")
    return value.rstrip("\n") + "\n" if is_ended else value


def _rewritten(text: str, node: yaml.Node, value: str | float | None) -> Iterator[str]:
    """Texts with another scalar in place of a node, in its own style first."""
    if not isinstance(node, yaml.ScalarNode):
        return
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(value, str) and node.style in ("|", ">"):
        yield text[:start] + _block(text, node, value) + text[end:]
    rest = text[end:]
    for scalar in _scalars(value, node.style):
        yield text[:start] + scalar + ("\n" if node.style in ("|", ">") and rest[:1] != "\n" else "") + rest


def _scalars(value: str | float | None, style: str | None = None) -> Iterator[str]:
    """Value as scalars of YAML: plain before quoted, unless it was quoted."""
    if not isinstance(value, str):
        yield "null" if value is None else f"{value:.15g}"
        return
    if style == "'":
        yield "'" + value.replace("'", "''") + "'"
    if style != '"' and value.isprintable():
        yield value
    yield json.dumps(value, ensure_ascii=False)


def _block(text: str, node: yaml.ScalarNode, value: str) -> str:
    """Value as the block that it replaces: with its head and its indentation."""
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
    kept = re.search(r"\n*\Z", body)
    gap = "\n" * max(1, len(kept[0]) if kept else 1)  # empty lines below the block stay
    return (head[0] if head else "|\n") + "\n".join(indent + line if line else "" for line in lines) + gap


def _insertions(
    text: str, mapping: yaml.MappingNode, place: Place, value: str | float | None, before: tuple[str, ...]
) -> Iterator[str]:
    """Texts with a new key above one that the mapping has."""
    nodes = {key.value: key for key, _ in mapping.value}
    anchor = next((nodes[name] for name in before if name in nodes), None)
    if anchor is None:
        return
    start = anchor.start_mark.index
    between = ", " if mapping.flow_style else "\n" + " " * anchor.start_mark.column
    for scalar in _scalars(value):
        yield f"{text[:start]}{place[-1]}: {scalar}{between}{text[start:]}"
