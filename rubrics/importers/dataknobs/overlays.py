"""What one mapping says that another does not: taken off as an overlay, and laid over again.

`laid_over(given, overlay_of(wanted, given)) == wanted`, whatever the two are, unless `wanted` has the key `left_out`.
"""

from collections.abc import Collection
from typing import Any

LEFT_OUT = "left_out"  # the key of an overlay under which stand the names that `wanted` does not have


def overlay_of(wanted: dict[str, Any], given: dict[str, Any], nested: Collection[str] = ()) -> dict[str, Any]:
    """The keys of `wanted` that `given` has not, or with another value; empty where the two are equal.

    nested: the keys whose mappings get an overlay of their own; the values of all others are taken whole.
    """
    overlay: dict[str, Any] = {}
    for key, value in wanted.items():
        if key not in given or given[key] != value:
            is_nested = key in nested and isinstance(value, dict) and isinstance(given.get(key), dict)
            overlay[key] = overlay_of(value, given[key]) if is_nested else value
    absent = [key for key in given if key not in wanted]
    return overlay | ({LEFT_OUT: absent} if absent else {})


def laid_over(given: dict[str, Any], overlay: dict[str, Any], nested: Collection[str] = ()) -> dict[str, Any]:
    """`given` with the keys of the overlay, and without those that it says are left out."""
    left_out = absent_names(overlay)
    whole = {key: value for key, value in given.items() if key not in left_out}
    for key, value in overlay.items():
        if key != LEFT_OUT:
            is_nested = key in nested and isinstance(value, dict) and isinstance(given.get(key), dict)
            whole[key] = laid_over(given[key], value) if is_nested else value
    return whole


def absent_names(overlay: dict[str, Any]) -> list[str]:
    """What an overlay leaves out; nothing where that is no list of names."""
    names = overlay.get(LEFT_OUT)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
