"""Formats of other systems, by name."""

from functools import cache
from importlib import import_module

from gradebook.rubrics.importers.interfaces import Format

FORMAT_NAMES = (
    "potato",
    "dataknobs",
    "dimensions",
    "scale",
    "healthbench",
    "tree",
    "prometheus",
    "checklist",
    "autorubric",
    "ifeval",
)


@cache
def find_format(name: str) -> Format:
    """Find a format, one of `FORMAT_NAMES`. Raises `KeyError`."""
    if name not in FORMAT_NAMES:
        raise KeyError(name)
    found: Format = import_module(f"gradebook.rubrics.importers.{name}").FORMAT
    return found
