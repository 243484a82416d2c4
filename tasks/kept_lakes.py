"""Connections that keep their lake attached from one block of a process to the next.

Attaching takes longer than most questions do, and so does the first look at each table. A lake in a SQLite file is kept
while nobody else touches that file: it may be another lake by then.
"""

import atexit
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from tasks.lake import Lake

FileState = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Attached:
    """How a lake is attached. at: the version that is read; None: the last one, whichever that is."""

    lake: "Lake"
    read_only: bool
    at: int | None

    @property
    def is_kept(self) -> bool:
        """Whether it can be kept: a server may go away meanwhile, and a version that a person names is asked once."""
        return self.lake.catalog == "sqlite" and self.lake.bucket is None and self.lake.at is None


@dataclass(slots=True)
class KeptLakes:
    """The connections of one lake that nobody uses now: one to write, one to read, one to read a version."""

    lake: "Lake | None" = None
    state: FileState | None = None  # of the catalog's file, when the last block ended
    connections: dict[Attached, duckdb.DuckDBPyConnection] = field(default_factory=dict)
    inherited: list[duckdb.DuckDBPyConnection] = field(default_factory=list)

    def take(self, attached: Attached) -> duckdb.DuckDBPyConnection | None:
        """A connection with the lake attached in this way; None where there is none, or somebody else wrote."""
        if attached.lake != self.lake or self.state is None or _file_state(attached.lake) != self.state:
            self.close()
        return self.connections.pop(attached, None)

    def keep(self, attached: Attached, connection: duckdb.DuckDBPyConnection) -> None:
        """Keep a connection for the next block; its transactions have ended."""
        if attached.lake != self.lake:
            self.close()
        self.lake, self.state = attached.lake, _file_state(attached.lake)
        for other in [each for each in self.connections if _is_one_place(each, attached)]:
            let_go(self.connections.pop(other))
        self.connections[attached] = connection

    def close(self) -> None:
        """Let go of all."""
        while self.connections:
            let_go(self.connections.popitem()[1])
        self.lake = self.state = None

    def forget(self) -> None:
        """Leave all to the process that this one was forked from: a close would wait for threads that only it has."""
        self.inherited.extend(self.connections.values())
        self.connections.clear()


def let_go(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection; after a commit that failed, a close of an attached lake leaves 4 MB behind (DuckDB 1.5.5)."""
    with suppress(duckdb.Error):  # it is not attached, or its server is gone
        connection.execute("use memory; detach database if exists lake")
    connection.close()


def _is_one_place(one: Attached, other: Attached) -> bool:
    return (one.read_only, one.at is None) == (other.read_only, other.at is None)


def _file_state(lake: "Lake") -> FileState | None:
    try:
        found = os.stat(lake.address)  # noqa: PTH116 - opening it would end the process's locks on it
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


kept_lakes = KeptLakes()
atexit.register(kept_lakes.close)
os.register_at_fork(after_in_child=kept_lakes.forget)
