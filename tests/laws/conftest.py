"""The parsed modules are forgotten after the last law."""

import pytest

from tests.support.source_trees import tree_of


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Free the trees: millions of objects would slow down the garbage collection of later tests."""
    if nextitem is None or "laws" not in nextitem.path.parts:
        tree_of.cache_clear()
