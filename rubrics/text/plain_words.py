"""Pydantic's errors in plain words: "criteria[2].weight: found 'heavy', expected a number"."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.levels import LEVEL_ID_PATTERN
from gradebook.rubrics.model.rubric import ID_PATTERN, OWN_ID_PATTERN, VERSION_PATTERN

MOST_SHOWN = 60

Place = tuple[str | int, ...]

_PATTERN_TEXTS = {
    ID_PATTERN: "lower-case letters, digits and _, a letter first, at most 64",
    OWN_ID_PATTERN: "letters, digits, _, ., : and -, a letter first, at most 64",
    LEVEL_ID_PATTERN: "letters, digits, _, . and -, a letter or digit first, at most 64",
    VERSION_PATTERN: "three numbers with points between, such as 1.0.0",
}
_KINDS = {
    "string": "text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "tuple": "a list",
    "list": "a list",
    "set": "a list",
    "dict": "a mapping of keys to values",
    "model": "a mapping of keys to values",
    "finite": "a finite number",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "of at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "of at most"),
    "less_than": ("lt", "below"),
}


def place_text(place: Place) -> str:
    """Place in readable notation: criteria[2].levels[0].id."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def quote_value(value: Any) -> str:
    """Value in the file's notation, cut to a readable length."""
    if isinstance(value, bool):
        return f"{str(value).lower()} (a bare yes, no, on or off is read so)"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    try:
        text = repr(value)
    except ValueError:
        return "a number of more than 4,300 digits"  # Python refuses to print longer integers
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 4]}...{text[-1]}"


def unknown_word(word: str, known: Iterable[str]) -> str:
    """Text for "expected": all known names, and the closest name if one is close."""
    names = sorted(known)
    near = [name for name in names if word and name.startswith(word)] or difflib.get_close_matches(word, names, n=1)
    return f"one of {', '.join(names)}" + (f" (the nearest is {near[0]})" if near else "")


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Keys that a file may use for this model."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def describe(fault: Any, place: Place, keys: Sequence[str]) -> tuple[Place, str]:
    """Convert one of pydantic's error details to a place and a message.

    fault: an entry of `ValidationError.errors()`; place: its place in the file; keys: keys allowed in the mapping
    around it.
    """
    kind, value = str(fault["type"]), fault.get("input")
    if kind == "missing":
        return place, f"{_prefix(place[:-1])}found no {place[-1]!r}, expected one"
    if kind == "extra_forbidden":
        return (
            place,
            f"{_prefix(place[:-1])}found the unknown key {place[-1]!r}, expected {unknown_word(str(place[-1]), keys)}",
        )
    if kind == "value_error":
        return _validator_message(fault["ctx"]["error"], place)
    if kind.startswith("union_tag"):
        return _union_message(fault, place)
    return place, f"{_prefix(place)}found {quote_value(value)}, expected {_expected(kind, fault)}"


def fault_lines(error: ValidationError, whole: str) -> list[str]:
    """One line per fault: its place and pydantic's message. whole: name of the whole value in a message."""
    return [f"{'.'.join(map(str, fault['loc'])) or whole}: {fault['msg']}" for fault in error.errors()]


def _prefix(place: Place) -> str:
    return f"{place_text(place)}: " if place else ""


def _validator_message(error: ValueError, place: Place) -> tuple[Place, str]:
    """Place and message of a validator's own error; a `ModelFault` may name a field further inside."""
    inside, message = (error.place, error.message) if isinstance(error, ModelFault) else ((), str(error))
    inner = place if place and place[-1:] == inside else (*place, *inside)
    return inner, f"{_prefix(inner)}{message}"


def _union_message(fault: Any, place: Place) -> tuple[Place, str]:
    tag = str(fault["ctx"]["discriminator"]).strip("'")
    if fault["type"] == "union_tag_not_found":
        return place, f"{_prefix(place)}found no {tag!r}, expected one"
    tags = re.findall(r"'([^']+)'", fault["ctx"]["expected_tags"])
    inner = (*place, tag)
    value = fault["input"].get(tag) if isinstance(fault["input"], dict) else fault["ctx"]["tag"]
    return inner, f"{_prefix(inner)}found {quote_value(value)}, expected {unknown_word(str(value), tags)}"


def _expected(kind: str, fault: Any) -> str:
    context = fault.get("ctx", {})
    if kind in _BOUNDS:
        key, relation = _BOUNDS[kind]
        return f"a number {relation} {context[key]:g}"
    if kind == "literal_error":
        return "one of " + str(context["expected"]).replace(" or ", ", ")
    if kind == "string_pattern_mismatch":
        return _PATTERN_TEXTS.get(context["pattern"], f"text that fits {context['pattern']}")
    if kind.endswith(("too_short", "too_long")):
        return _expected_length(kind, context)
    if kind == "string_type" and isinstance(fault["input"], (int, float)):
        return "text (quotes make it so)"
    return _KINDS.get(kind.partition("_")[0], str(fault["msg"]))


def _expected_length(kind: str, context: dict[str, Any]) -> str:
    relation, key = ("at least", "min_length") if kind.endswith("short") else ("at most", "max_length")
    one, many = ("character", "characters") if kind.startswith("string") else ("entry", "entries")
    return f"{relation} {context[key]} {one if context[key] == 1 else many}"
