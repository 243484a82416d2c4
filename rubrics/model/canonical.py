"""JSON text in one form, so that equal values have equal texts."""

from typing import Any

import orjson


def canonical_json(value: Any) -> str:
    """Canonical JSON of a value: sorted keys, no spaces. Raises `orjson.JSONEncodeError` if it nests too deep."""
    return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS).decode()
