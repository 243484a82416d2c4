"""Connections to local SQLite lakes, cached between the blocks of a process that use them.

Attaching a lake, and first reading each table, takes longer than most queries. A connection stays cached as long as
no other process changes the catalog's file: it may be another lake by then.
"""

import atexit
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace

import duckdb

from gradebook.tasks.lake.address import Lake

FileState = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Attached:
    """Options that a lake is attached with. at: the version to read; None: the latest."""

    lake: Lake
    read_only: bool
    at: int | None

    @property
    def is_cacheable(self) -> bool:
        """Cache only local SQLite lakes at the latest version."""
        return self.lake.catalog == "sqlite" and self.lake.bucket is None and self.lake.at is None

    @property
    def slot(self) -> tuple[bool, bool]:
        """Cache slot: one connection is cached for each of (read only, latest version)."""
        return self.read_only, self.at is None


@dataclass(slots=True)
class ConnectionCache:
    """Idle connections of one lake, at most one per slot.

    DuckLake's own cache is trusted as long as the catalog's file is unchanged since the last block. After a block that
    read, the file must be identical; after a block that wrote, it must be the same inode. A backup copied over the file
    during a writing block goes unnoticed.
    """

    lake: "Lake | None" = None
    state: FileState | None = None  # of the catalog's file
    connections: dict[tuple[bool, bool], tuple[Attached, duckdb.DuckDBPyConnection]] = field(default_factory=dict)
    inherited: list[duckdb.DuckDBPyConnection] = field(default_factory=list)

    def take(self, attached: Attached) -> tuple[Attached, duckdb.DuckDBPyConnection] | None:
        """Take a connection out of the cache, with the options that it is attached with; None if there is none.

        A block that reads is given one that writes, if there is no other: to open another takes as long as many reads.
        """
        state = _file_state(attached.lake)
        if attached.lake != self.lake or state != self.state:
            self.close()
            self.lake, self.state = attached.lake, state
        for options in (attached, replace(attached, read_only=False)):
            found = self.connections.get(options.slot)
            if found is not None and found[0] == options:
                return self.connections.pop(options.slot)
        return None

    def keep(self, attached: Attached, connection: duckdb.DuckDBPyConnection, *, is_written: bool) -> None:
        """Cache a connection for the next block. Its transactions have ended. is_written: the last block wrote."""
        state = _file_state(attached.lake)
        if attached.lake != self.lake or not _is_still(self.state, state, is_written=is_written):
            release(connection)
            return
        self.state = state
        if attached.slot in self.connections:
            release(self.connections.pop(attached.slot)[1])
        self.connections[attached.slot] = attached, connection

    def close(self) -> None:
        """Close all connections."""
        while self.connections:
            release(self.connections.popitem()[1][1])
        self.lake = self.state = None

    def forget(self) -> None:
        """Drop connections inherited by a fork: only the process that opened a SQLite file may close it."""
        self.inherited.extend(connection for _, connection in self.connections.values())
        self.connections.clear()


def _is_still(before: FileState | None, now: FileState | None, *, is_written: bool) -> bool:
    """Whether a catalog's file is unchanged, except by its own writer; the file of a new lake did not exist before."""
    if is_written:
        return now is not None and (before is None or before[0] == now[0])
    return now == before


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Detach the lake, then close: closing while attached leaks 4 MB after a failed commit (DuckDB 1.5.5)."""
    with suppress(duckdb.Error):  # not attached, or the server is gone
        connection.execute("use memory; detach database if exists lake")
    connection.close()


def _file_state(lake: Lake) -> FileState | None:
    try:
        found = os.stat(lake.address)  # noqa: PTH116 - opening and closing it would drop the process's locks on it
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


cached_connections = ConnectionCache()
atexit.register(cached_connections.close)
os.register_at_fork(after_in_child=cached_connections.forget)
