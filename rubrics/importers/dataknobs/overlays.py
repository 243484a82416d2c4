"""Difference of two mappings as an overlay, and its application.

`laid_over(given, overlay_of(wanted, given)) == wanted` for any two mappings, unless `wanted` has the key `left_out`.
"""

from collections.abc import Collection
from typing import Any

LEFT_OUT = "left_out"  # key of an overlay for the names that `wanted` does not have


def overlay_of(wanted: dict[str, Any], given: dict[str, Any], nested: Collection[str] = ()) -> dict[str, Any]:
    """Keys of `wanted` that `given` lacks or has with another value; empty if the two are equal.

    nested: keys whose mappings get an overlay of their own; all other values are taken whole.
    """
    overlay: dict[str, Any] = {}
    for key, value in wanted.items():
        if key not in given or given[key] != value:
            is_nested = key in nested and isinstance(value, dict) and isinstance(given.get(key), dict)
            overlay[key] = overlay_of(value, given[key]) if is_nested else value
    absent = [key for key in given if key not in wanted]
    return overlay | ({LEFT_OUT: absent} if absent else {})


def laid_over(given: dict[str, Any], overlay: dict[str, Any], nested: Collection[str] = ()) -> dict[str, Any]:
    """`given` with the keys of the overlay, and without the names that it omits."""
    omitted = absent_names(overlay)
    whole = {key: value for key, value in given.items() if key not in omitted}
    for key, value in overlay.items():
        if key != LEFT_OUT:
            is_nested = key in nested and isinstance(value, dict) and isinstance(given.get(key), dict)
            whole[key] = laid_over(given[key], value) if is_nested else value
    return whole


def absent_names(overlay: dict[str, Any]) -> list[str]:
    """Names that an overlay omits; empty if that is not a list of names."""
    names = overlay.get(LEFT_OUT)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
