"""New lakes, cheap ones."""

from collections.abc import Iterator

import pytest

from tests.support.new_lakes import copied_lakes


@pytest.fixture(scope="module", autouse=True)
def new_lakes() -> Iterator[None]:
    """Copy the lakes that a module's tests make in this process; a folder about the making of lakes overrides it."""
    with copied_lakes():
        yield
