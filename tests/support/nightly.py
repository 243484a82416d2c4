"""Rows of a parametrised test that `make test-nightly` alone runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def nightly(rows: Iterable[Any]) -> list[Any]:
    """Mark rows as nightly: the same promise as a daily row, at other places or sizes."""
    return [pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.nightly) for row in rows]
