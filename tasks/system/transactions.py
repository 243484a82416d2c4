"""Transactions of SQLite databases that are opened with `isolation_level=None`."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(database: sqlite3.Connection, kind: str = "immediate") -> Iterator[None]:
    """Commit what the block does; an exception rolls it back. kind: SQLite's word after `begin`."""
    database.execute(f"begin {kind}")
    try:
        yield
    except BaseException:
        if database.in_transaction:  # SQLite itself rolls back if the disk is full
            database.execute("rollback")
        raise
    database.execute("commit")
