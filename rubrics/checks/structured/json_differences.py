"""First difference of two JSON values, and sorting of lists for an order-independent comparison."""

import json
import math
from decimal import Context, Decimal
from functools import partial
from types import MappingProxyType
from typing import Any

from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.check_kit.stack import on_a_full_stack
from gradebook.rubrics.model.counts import counted

SHOWN_LEVELS = 8  # of a path
ROUNDING = 1e-15  # maximum error of the difference of two floats, as a share of the larger one
EXACT = Context(prec=1_000)  # digits, more than there are between the first of 1e308 and the last of 5e-324
# types of equal rank are comparable
RANKS = MappingProxyType({type(None): 0, bool: 1, int: 2, float: 2, str: 3, list: 4, dict: 5})
AS_THEY_ARE = frozenset((str, int, bool, type(None)))  # equal if type and value are; a float may be infinite


class TooLarge(Exception):
    """Two numbers are too large to compare."""

    def __str__(self) -> str:
        return "too large to compare: found two numbers beyond 1e308"


class _Difference(Exception):
    """Two values differ. path: keys and indices from the innermost outwards, appended on the way up."""

    def __init__(self, words: str, *path: str | int) -> None:
        super().__init__(words, *path)
        self.words = words
        self.path = list(path)


def put_in_order(value: Any) -> Any:
    """Sort the lists of a value in place, and return a sort key for values of the same type.

    The key is flat, with a type rank before each entry: a tuple per entry takes twice as long.
    """
    kind = type(value)
    if kind is dict:
        parts: list[Any] = []
        for key in sorted(value):
            entry = value[key]
            parts += key, RANKS[type(entry)], put_in_order(entry)
        return tuple(parts)
    if kind is list:
        return _sort_entries(value) if value else ()
    return 0 if value is None else value


def _sort_entries(entries: list[Any]) -> tuple[Any, ...]:
    ranks = {RANKS[kind] for kind in set(map(type, entries))}
    keys = [put_in_order(entry) for entry in entries]
    if len(ranks) > 1:
        keys = [(RANKS[type(entry)], key) for entry, key in zip(entries, keys, strict=True)]
    places = sorted(range(len(keys)), key=keys.__getitem__)
    entries[:] = [entries[place] for place in places]
    if len(ranks) > 1:
        return tuple(part for place in places for part in keys[place])
    rank = max(ranks, default=0)
    return tuple(part for place in places for part in (rank, keys[place]))


def find_difference(found: Any, expected: Any, tolerance: float) -> str | None:
    """First difference with its path, in the order of the expected value; None if there is none.

    Raises `TooLarge` if two numbers beyond 1e308 have to be compared before it.
    """
    try:
        _compare(found, expected, tolerance)
    except _Difference as difference:
        return f"{_path_text(difference.path[::-1])}: {difference.words}"
    return None


def _compare(found: Any, expected: Any, tolerance: float) -> None:
    """Raise the first difference."""
    kind, is_alike = type(found), type(found) is type(expected)
    if is_alike and kind in AS_THEY_ARE and found == expected:
        return  # true for most values
    if is_alike and kind is dict:
        _compare_objects(found, expected, tolerance)
    elif is_alike and kind is list:
        _compare_lists(found, expected, tolerance)
    elif not _is_same(found, expected, tolerance):
        raise _Difference(f"found {_shown(found)}, expected {_shown(expected)}")


def _compare_objects(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    for key, theirs in expected.items():
        if key not in found:
            raise _Difference(f"missing, expected {_shown(theirs)}", key)
        try:
            _compare(found[key], theirs, tolerance)
        except _Difference as difference:
            difference.path.append(key)
            raise
    for key, mine in found.items():
        if key not in expected:
            raise _Difference(f"found {_shown(mine)}, expected no such key", key)


def _compare_lists(found: list[Any], expected: list[Any], tolerance: float) -> None:
    for place, (mine, theirs) in enumerate(zip(found, expected, strict=False)):
        try:
            _compare(mine, theirs, tolerance)
        except _Difference as difference:
            difference.path.append(place)
            raise
    if len(found) != len(expected):
        raise _Difference(f"found {counted(len(found), 'entry', 'entries')}, expected {len(expected)}")


def _is_same(found: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        if math.isinf(found) and found == expected:
            raise TooLarge
        return found == expected or _is_near(found, expected, tolerance)
    return bool(found == expected)


def _is_near(found: float, expected: float, tolerance: float) -> bool:
    """Whether two numbers are within the tolerance as written: 1.1 is 0.1 from 1, though their floats are further
    apart.
    """
    difference = abs(found - expected)
    rounding = max(abs(found), abs(expected)) * ROUNDING
    if math.isinf(difference) or abs(difference - tolerance) > rounding:
        return difference <= tolerance
    one, other, most = (Decimal(repr(number)) for number in (found, expected, tolerance))
    return EXACT.subtract(one, other).copy_abs() <= most


def _path_text(path: list[str | int]) -> str:
    """Path in JSONPath notation, shortened in the middle if it is long."""
    parts = [f"[{part}]" if isinstance(part, int) else _key_text(part) for part in path]
    if len(parts) > SHOWN_LEVELS:
        parts = [*parts[: SHOWN_LEVELS // 2], "…", *parts[-SHOWN_LEVELS // 2 :]]
    return "$" + "".join(parts)


def _key_text(key: str) -> str:
    return f".{key}" if key.isidentifier() and len(key) <= EXCERPT_CHARACTERS else f"[{_shown(key)}]"


def _shown(value: Any) -> str:
    return cut_text(on_a_full_stack(partial(json.dumps, value, ensure_ascii=False)), EXCERPT_CHARACTERS)
