"""JSON values: rows, the one canonical text of a value, and digests."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

Row = dict[str, Any]

HALF_PAIR = re.compile("[\ud800-\udfff]")  # half of a surrogate pair, which Python's own JSON reader accepts


def canonical_json(value: Any) -> str:
    """Canonical JSON of a value: sorted keys, no spaces. Raises `orjson.JSONEncodeError` if it nests too deep."""
    return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS).decode()


def drop_none(values: Mapping[str, Any]) -> Row:
    """Copy of a mapping without keys whose value is None."""
    return {name: value for name, value in values.items() if value is not None}


def digest_of(content: str | bytes) -> str:
    """Digest of bytes, or of a text in UTF-8 (lone surrogates are allowed); 32 hex digits."""
    encoded = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()
