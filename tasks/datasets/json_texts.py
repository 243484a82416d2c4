"""JSON as other programs write it: NaN, numbers beyond 64 bits, halves of surrogate pairs."""

import json
import math
import re
from collections import Counter
from functools import partial
from typing import Any

import orjson

Notes = Counter[str]  # sentences about rows, and the number of rows that each is true of

NULLED = "with NaN or Infinity, read as null"
KEPT_AS_TEXT = "with a number of more than 64 bits, kept as text"
_ANY_DIGIT_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_UNSIGNED, _SIGNED = b"0" * 20, b"-" + b"0" * 19  # the shortest numbers that may be beyond 64 bits
# Escapes in turn, so that the second half of a pair, or an escaped backslash, starts none.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL)

# What Python reads and `orjson` refuses; other texts are refused by both, the second time slowly.
_ODD = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]|[0-9][eE][+-]?[0-9]|[0-9]{300}")


def load_json(text: bytes | str, notes: Notes) -> Any:
    """Value of a JSON text. NaN and Infinity are null, and numbers beyond 64 bits are texts of their digits.

    notes: counts this text once under each sentence that is true of it. Raises `json.JSONDecodeError`.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not _ODD.search(text if isinstance(text, bytes) else text.encode(errors="replace")):
            raise
        return _load_odd(text, error, notes)
    return _read_slowly(text, notes) if _has_long_number(text) else value


def _has_long_number(text: bytes | str) -> bool:
    """Whether there may be a number beyond 64 bits, of which `orjson` keeps 17 digits."""
    marks = (text if isinstance(text, bytes) else text.encode()).translate(_ANY_DIGIT_AS_ZERO)
    return _UNSIGNED in marks or _SIGNED in marks


def _load_odd(given: bytes | str, error: orjson.JSONDecodeError, notes: Notes) -> Any:
    """Value of a text that `orjson` refuses. Raises its error, or that of half a surrogate pair."""
    try:
        text = given if isinstance(given, str) else given.decode()
        value = _read_slowly(text, read := Notes())
    except (ValueError, RecursionError):
        raise error from None
    half = next((match for match in _ESCAPES.finditer(text) if match["half"]), None)
    if half is not None:
        raise json.JSONDecodeError(f"half of a surrogate pair, \\{half['half']}", text, half.start()) from None
    notes.update(read)
    return value


def _read_slowly(text: bytes | str, notes: Notes) -> Any:
    """Value as Python reads it."""
    read: set[str] = set()
    value = json.loads(
        text,
        parse_constant=lambda _name: read.add(NULLED),
        parse_int=partial(_integer, read),
        parse_float=partial(_float, read),
    )
    notes.update(read)
    return value


def _integer(read: set[str], digits: str) -> int | str:
    if len(digits) <= 20 and -(2**63) <= (value := int(digits)) < 2**64:
        return value
    read.add(KEPT_AS_TEXT)
    return digits


def _float(read: set[str], digits: str) -> float | str:
    value = float(digits)
    if math.isfinite(value):
        return value
    read.add(KEPT_AS_TEXT)
    return digits
