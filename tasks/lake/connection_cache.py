"""Connections that keep their lake attached from one block of a process to the next.

Attaching takes longer than most questions do, and so does the first look at each table. A lake in a SQLite file is kept
while nobody else touches that file: it may be another lake by then.
"""

import atexit
import os
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb

from gradebook.tasks.lake.address import Lake

FileState = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Attached:
    """How a lake is attached. at: the version that is read; None: the last one, whichever that is."""

    lake: Lake
    read_only: bool
    at: int | None

    @property
    def can_be_kept(self) -> bool:
        """Not where a server may go away meanwhile, nor at a version that a person names: it is asked once."""
        return self.lake.catalog == "sqlite" and self.lake.bucket is None and self.lake.at is None

    @property
    def place(self) -> tuple[bool, bool]:
        """What it shares with those of which one alone is kept: to write, to read, to read a version."""
        return self.read_only, self.at is None


@dataclass(slots=True)
class KeptLakes:
    """The connections of one lake that nobody uses now, at most one of each place.

    What DuckLake knows of a lake is taken for true while the catalog's file is as the last block left it. A block that
    read leaves it as it was found; of one that wrote it is enough that the file is still the same: a backup that is
    copied over it in that moment is not noticed.
    """

    lake: "Lake | None" = None
    state: FileState | None = None  # of the catalog's file
    connections: dict[tuple[bool, bool], tuple[Attached, duckdb.DuckDBPyConnection]] = field(default_factory=dict)
    inherited: list[duckdb.DuckDBPyConnection] = field(default_factory=list)

    def take(self, attached: Attached) -> duckdb.DuckDBPyConnection | None:
        """A connection with the lake attached in this way; None where there is none, or somebody else wrote."""
        state = _file_state(attached.lake)
        if attached.lake != self.lake or state != self.state:
            self.close()
            self.lake, self.state = attached.lake, state
        kept, connection = self.connections.get(attached.place, (None, None))
        if kept != attached:
            return None
        del self.connections[attached.place]
        return connection

    def keep(self, attached: Attached, connection: duckdb.DuckDBPyConnection) -> None:
        """Keep a connection that was taken, or made then, for the next block; its transactions have ended."""
        state = _file_state(attached.lake)
        if attached.lake != self.lake or not _is_still(self.state, state, is_written=not attached.read_only):
            let_go(connection)
            return
        self.state = state
        if attached.place in self.connections:
            let_go(self.connections.pop(attached.place)[1])
        self.connections[attached.place] = attached, connection

    def close(self) -> None:
        """Let go of all."""
        while self.connections:
            let_go(self.connections.popitem()[1][1])
        self.lake = self.state = None

    def forget(self) -> None:
        """Leave all to the process that this one was forked from: what it opened in SQLite it alone may close."""
        self.inherited.extend(connection for _, connection in self.connections.values())
        self.connections.clear()


def _is_still(before: FileState | None, now: FileState | None, *, is_written: bool) -> bool:
    """Whether a file is the one that it was, changed by its writer alone; a new lake's was not there before."""
    if is_written:
        return now is not None and (before is None or before[0] == now[0])
    return now == before


def let_go(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection; after a commit that failed, a close of an attached lake leaves 4 MB behind (DuckDB 1.5.5)."""
    with suppress(duckdb.Error):  # it is not attached, or its server is gone
        connection.execute("use memory; detach database if exists lake")
    connection.close()


def _file_state(lake: Lake) -> FileState | None:
    try:
        found = os.stat(lake.address)  # noqa: PTH116 - opening it would end the process's locks on it
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


kept_lakes = KeptLakes()
atexit.register(kept_lakes.close)
os.register_at_fork(after_in_child=kept_lakes.forget)
