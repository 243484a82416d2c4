"""A PostgreSQL server for the tests of a module, where Debian's package is, and object storage for all."""

from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer, find_programs, running_server
from tests.support.s3 import Storage, running_storage


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A running server; its tests may stop and start it."""
    programs = find_programs()
    if programs is None:
        pytest.skip("found no initdb and pg_ctl of PostgreSQL on the path or in /usr/lib/postgresql/*/bin")
    with running_server(programs) as running:
        yield running


@pytest.fixture(scope="session")
def storage() -> Iterator[Storage]:
    """The server of all tests that only need one."""
    with running_storage() as running:
        yield running
