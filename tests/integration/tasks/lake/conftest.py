"""New lakes as gradebook makes them, where they are the subject."""

from collections.abc import Iterator

import pytest

from tests.support.new_lakes import copied_lakes

# Modules about what happens in a lake once it is there.
COPIED = ("compaction", "connection_cache", "partitions", "user_queries", "version_log", "versions")


@pytest.fixture(scope="module", autouse=True)
def new_lakes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make lakes anew, except in the modules of COPIED."""
    if request.path.stem.removeprefix("test_") not in COPIED:
        yield
        return
    with copied_lakes():
        yield
