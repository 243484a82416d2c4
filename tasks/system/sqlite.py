"""SQLite in this process: transactions of databases opened with `isolation_level=None`, and forks.

Trainers and `multiprocessing` fork their process. A fork copies SQLite's locks as they are. A lock that another
thread holds at that moment is never released in the child, and every later transaction of the child deadlocks. So a
fork waits until no other thread holds `lake_turn` or `unforked`. Code that needs both takes `lake_turn` first, to avoid
a deadlock of two threads.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(database: sqlite3.Connection, kind: str = "immediate") -> Iterator[None]:
    """Run the block in a transaction; an exception rolls it back. kind: SQLite's word after `begin`."""
    database.execute(f"begin {kind}")
    try:
        yield
    except BaseException:
        if database.in_transaction:  # SQLite itself rolls back if the disk is full
            database.execute("rollback")
        raise
    database.execute("commit")


lake_turn = threading.RLock()  # held by a thread while it is connected to a lake
unforked = threading.RLock()  # held by a thread while it uses SQLite directly, without connecting to a lake


def _hold() -> None:
    lake_turn.acquire()
    unforked.acquire()


def _release() -> None:
    unforked.release()
    lake_turn.release()


os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
