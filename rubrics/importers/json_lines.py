"""Strict parsing of foreign JSON and JSON Lines, each fault with its line or place; writing of JSON and YAML."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import yaml

from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, FaultList, RubricError
from gradebook.rubrics.text.plain_words import Place, place_text

MOST_DIGITS = 300  # maximum of a float
DEEPEST = 100  # forty nested tasks of a tree, and the content of the innermost
PARTS_SHOWN = 4  # of a place that is too deep
_STRANGE_BREAK = re.compile("[\x85\u2028\u2029\ufeff]")
_LAST_COMMA = re.compile(r",\s*([\]}])")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def read_json(text: str, path: str, line: int | None = None) -> Any:
    """Parse a JSON text, a whole file or one line of it. Raises `RubricError` with every fault.

    Nothing is corrected by guessing: a superfluous comma, a repeated key, an invalid number, half a character and
    endless nesting are faults.
    """
    try:
        value = _parsed(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        place, words = json_fault(error)
        raise RubricError((Fault(path, line or error.doc.count("\n", 0, place) + 1, words),)) from None
    except ValueError as error:
        raise RubricError((Fault(path, line, printable(str(error))),)) from None
    strange = islice(strange_values(value), MOST_FAULTS)
    faults = tuple(Fault(path, line, placed(place, message)) for place, message in strange)
    if faults:
        raise RubricError(faults)
    return value


def read_json_lines(text: str, path: str) -> list[tuple[int, dict[str, Any]]]:
    """Parse the objects of a JSON Lines file, each with its line. Raises `RubricError` with every bad line."""
    rows: list[tuple[int, dict[str, Any]]] = []
    faults = FaultList(RubricError)
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = read_json(line, path, number)
        except RubricError as error:
            faults.add(error.faults)
            continue
        if isinstance(row, dict):
            rows.append((number, row))
        else:
            faults.add([Fault(path, number, f"found {type(row).__name__}, expected an object")])
    faults.raise_any()
    if not rows:
        raise RubricError((Fault(path, None, "found an empty file, expected at least one row"),))
    return rows


def strange_values(value: Any) -> Iterator[tuple[Place, str]]:
    """Values that are valid in JSON but not in a rubric or row, by place: half characters, infinite numbers, depth."""
    waiting: list[tuple[Place, Any]] = [((), value)]
    while waiting:  # no recursion, at any depth
        place, found = waiting.pop()
        if isinstance(found, (dict, list)) and len(place) >= DEEPEST:
            yield place[:PARTS_SHOWN], f"found more than {DEEPEST} levels of nesting, expected fewer"
        elif isinstance(found, dict):
            waiting += [((*place, str(key)), entry) for key, entry in reversed(found.items())]
            if any(_HALF_PAIR.search(str(key)) for key in found):
                yield place, "found half of a surrogate pair in a key, expected whole characters"
        elif isinstance(found, list):
            waiting += [((*place, index), entry) for index, entry in reversed([*enumerate(found)])]
        elif isinstance(found, str) and _HALF_PAIR.search(found):
            yield place, "found half of a surrogate pair, expected whole characters"
        elif isinstance(found, float) and not math.isfinite(found):
            yield place, "found an infinite number, expected a finite one"


def placed(place: Place, message: str) -> str:
    """Message of a fault, after its place."""
    where = place_text(place)
    return printable(f"{where}: {message}" if where else message)


def printable(words: str) -> str:
    """Text of a file that may contain half of a surrogate pair, made encodable."""
    return words.encode("utf-8", "backslashreplace").decode()


def indented_json(value: Any) -> str:
    """Readable JSON text, with a line break at its end."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def plain_yaml(values: Any) -> str:
    """Readable YAML text."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Dumper without aliases: two criteria with one scale would share theirs."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _quoted_where_needed(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Quote texts with line breaks that PyYAML would fold into a space."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _STRANGE_BREAK.search(text) else None)


_Dumper.add_representer(str, _quoted_where_needed)


def json_lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _parsed(text: str) -> Any:
    if not text.strip():
        raise ValueError("found an empty file, expected JSON")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("found a nesting without measure, expected a finite one") from None


def json_fault(error: json.JSONDecodeError) -> tuple[int, str]:
    """Place and message of a JSON fault. A superfluous comma is reported at the comma, not at the bracket after it."""
    before = error.doc[: error.pos].rstrip()
    is_at_comma = "trailing comma" in error.msg.lower()  # position in Python 3.13; 3.12 reports the bracket
    last = _LAST_COMMA.match(error.doc, error.pos if is_at_comma else max(len(before) - 1, 0))
    if last:
        return last.start(), f"found a comma before {last[1]!r}, expected none after the last entry: remove it"
    return error.pos, f"expected JSON: {error.msg}"


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated key: choosing one would be a guess."""
    keyed = dict(pairs)
    if len(keyed) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"found the key {twice[:40]!r} twice in one object, expected each key once")
    return keyed


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"found a whole number of {len(digits)} digits, expected at most {MOST_DIGITS}")
    return int(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"found {name}, expected a number that JSON has")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_whole, object_pairs_hook=_distinct)
