"""A PostgreSQL server for the tests of a module, where Debian's package is."""

from collections.abc import Iterator

import pytest
from postgres import PostgresServer, find_programs, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A running server; its tests may stop and start it."""
    programs = find_programs()
    if programs is None:
        pytest.skip("found no initdb and pg_ctl of PostgreSQL on the path or in /usr/lib/postgresql/*/bin")
    with running_server(programs) as running:
        yield running
