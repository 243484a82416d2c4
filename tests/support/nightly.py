"""Rows of a parametrised test that the daily tier leaves out."""

from collections.abc import Iterable
from typing import Any

import pytest


def nightly(rows: Iterable[Any]) -> list[Any]:
    """Mark rows as nightly: another fault, attack or place than the daily rows have."""
    return _marked(rows, pytest.mark.nightly)


def matrix(rows: Iterable[Any]) -> list[Any]:
    """Mark rows that repeat what a daily row shows, with other values or sizes: `make test-nightly` alone runs them."""
    return _marked(rows, pytest.mark.nightly, pytest.mark.matrix)


def _marked(rows: Iterable[Any], *marks: pytest.MarkDecorator) -> list[Any]:
    return [pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=marks) for row in rows]
