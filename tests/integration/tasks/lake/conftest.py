"""New lakes as gradebook makes them: they are the subject here."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def new_lakes() -> None:
    """Nothing in place of what makes a lake."""
