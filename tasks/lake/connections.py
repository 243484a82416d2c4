"""Connections to a lake: a cached one of this process, or a new one.

Attaching a lake, and first reading each table, takes longer than most queries. So a connection to a local SQLite lake
stays cached as long as no other process changes the catalog's file: it may be another lake by then.
"""

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.attaching import (
    LostCatalog,
    attach,
    check_identity,
    explain_missing_parts,
    extensions_of,
    last_version,
    load_extensions,
    make_folders,
    no_lake,
    pin,
    refuse_other_place,
    refuse_unmakeable,
    use_lake,
)
from gradebook.tasks.lake.commits import Body, Transaction, roll_back
from gradebook.tasks.lake.errors import NoLakeThere, translate_broken_files, translate_lost_connection
from gradebook.tasks.lake.object_store import allow_reading, check_store, probe_store, translate_storage_errors
from gradebook.tasks.lake.schema import CATALOG, bring_up_to_date, is_up_to_date, refuse_foreign_parts
from gradebook.tasks.lake.sql import NO_PROGRESS_BAR, open_database, read_sqlite
from gradebook.tasks.system.files import translate_full_disk
from gradebook.tasks.system.sqlite import lake_turn

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

        A reading block may get a writing connection: opening another one takes as long as many reads.
        """
        state = _file_state(attached.lake)
        if attached.lake != self.lake or state != self.state:
            self.close()
            self.lake, self.state = attached.lake, state
        for options in (attached, replace(attached, read_only=False)):
            cached = self.connections.get(options.slot)
            if cached is not None and cached[0] == options:
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
    """Whether a catalog's file is unchanged, except by our own writes; the file of a new lake did not exist before."""
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
        status = os.stat(lake.address)  # noqa: PTH116 - opening and closing it would drop the process's locks on it
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


cached_connections = ConnectionCache()
atexit.register(cached_connections.close)
os.register_at_fork(after_in_child=cached_connections.forget)


# A second thread adds half to the cost of a query of a few rows; up to this size one thread is fast enough.
ONE_THREAD_BYTES = 64 * 2**20
# Files in object storage: threads overlap the waiting, which pays off above this number of files.
ONE_THREAD_FILES = 100
LARGE_KNOWN_S = 5.0
_LARGE: dict[str, tuple[float, bool]] = {}  # lake's address -> (time of the check, whether the lake is large)
_DATA_SIZE = f"select coalesce(sum(file_size_bytes), 0), count(*) from {CATALOG}.ducklake_data_file"


@contextmanager
def attached_lake(
    attached: Attached, other_bytes: int, *, is_pinned: bool, is_unshared: bool
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connection to a lake, from the cache or new. Options: see `connect`."""
    lake = attached.lake
    is_pinned = is_pinned and attached.at is None
    is_cached = attached.is_cacheable and not is_unshared
    if is_cached and is_pinned:
        attached = replace(attached, at=_version_now(attached))
    is_written = not attached.read_only
    attached, root = (cached_connections.take(attached) if is_cached else None) or (attached, _open(attached))
    connection = root
    try:
        if is_cached:
            connection = root.cursor()  # closing the cursor drops its temporary tables
            connection.execute(NO_PROGRESS_BAR)
            use_lake(connection, lake)
        elif is_pinned:
            pin(connection, lake)
        if other_bytes > ONE_THREAD_BYTES or _is_large(connection, lake):
            connection.execute("reset threads")
            is_cached = False  # DuckDB caches the files' bytes in it as well
        yield connection
    except BaseException:
        is_cached = False
        raise
    finally:
        # Else DuckDB aborts the process when close() rolls back after the catalog's server is gone.
        roll_back(connection)
        if connection is not root:
            connection.close()
        if is_cached:
            cached_connections.keep(attached, root, is_written=is_written)
        else:
            release(root)


def _version_now(attached: Attached) -> int:
    """Latest version of a cacheable lake."""
    attached, root = cached_connections.take(attached) or (attached, _open(attached))
    try:
        version = last_version(root, attached.lake)
    except BaseException:
        release(root)
        raise
    cached_connections.keep(attached, root, is_written=False)
    return version


def _open(attached: Attached, *, is_new: bool = False) -> duckdb.DuckDBPyConnection:
    """Open a new connection with the lake attached. is_new: make the lake if there is none."""
    lake = attached.lake
    # DuckDB would hash 70 MB to check signatures, 0.2 s. The files are parts of installed wheels, as DuckDB itself is.
    connection = open_database(allow_unsigned_extensions=True, threads=1)
    try:
        connection.execute(NO_PROGRESS_BAR)
        load_extensions(connection, *extensions_of(lake))
        if lake.bucket is not None:
            allow_reading(connection, lake.bucket)
        attach(connection, lake, read_only=attached.read_only, at=attached.at, is_new=is_new)
        connection.execute("begin")  # the checks take half the time in one transaction
        refuse_other_place(connection, lake)
        refuse_foreign_parts(connection, lake, attached.at)
        if not attached.read_only:
            check_identity(connection, lake)
        roll_back(connection)
    except BaseException:
        release(connection)
        raise
    return connection


def _is_large(connection: duckdb.DuckDBPyConnection, lake: "Lake") -> bool:
    """Whether more than one thread reads the lake faster; looked up every few seconds, as that costs a query."""
    cached = _LARGE.get(lake.address)
    if cached is not None and time.monotonic() - cached[0] < LARGE_KNOWN_S:
        return cached[1]
    with suppress(duckdb.Error):  # another process is committing
        # fetchone() would leave the query open and the catalog locked for reading
        ((size_bytes, file_count),) = connection.execute(_DATA_SIZE).fetchall()
        is_scattered = lake.bucket is not None and file_count > ONE_THREAD_FILES
        is_large = is_scattered or bool(size_bytes > ONE_THREAD_BYTES)
        _LARGE[lake.address] = time.monotonic(), is_large
        return is_large
    return True


# Two threads of one process that use one SQLite catalog at once deadlock (DuckDB 1.5.5), so only one thread at a time
# connects: the one with `lake_turn`. Processes don't deadlock: they meet as conflicts.


@contextmanager
def connect(
    lake: Lake,
    *,
    read_only: bool = False,
    at: int | None = None,
    is_pinned: bool = False,
    is_unshared: bool = False,
    other_bytes: int = 0,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection with the lake as its default database, at version `at` or else `lake.at`.

    is_pinned: all reads of the block see the version that is the latest now, whatever others commit meanwhile. From
    about a dozen queries on, each takes half the time: DuckLake looks for no newer version.
    is_unshared: the block changes settings or the database `memory`, so that the connection must not be cached.
    other_bytes: size of other data that the block reads: small queries run on one thread.
    Raises `LakeError` if there is no lake, it can't be opened or written, or its version lacks a table that the block
    reads, and `LakeUnavailable` if its server is gone or others lock it for minutes.
    """
    at = lake.at if at is None else at
    if not lake.is_there:
        raise no_lake(lake)
    if not read_only:
        make_folders(lake)
    with (
        lake_turn,
        translate_full_disk(lake.name),
        translate_broken_files(),
        translate_lost_connection(lake, read_only=read_only),
        translate_storage_errors(lake.bucket),
    ):
        attached = Attached(lake, read_only, at)
        with (
            attached_lake(attached, other_bytes, is_pinned=is_pinned, is_unshared=is_unshared) as connection,
            explain_missing_parts(connection, lake, at),
        ):
            yield connection


def open_for_writing(lake: Lake) -> None:
    """Open an existing lake for a process that is going to write: its reading blocks then share the connection.

    Does nothing for a lake whose connections are not cached. Raises as `connect`.
    """
    if Attached(lake, read_only=False, at=lake.at).is_cacheable:
        with suppress(NoLakeThere), connect(lake):
            return


@contextmanager
def connect_up_to_date(
    lake: Lake, *, is_pinned: bool = False, is_unshared: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the lake for reading, after upgrading the tables and views of an earlier gradebook.

    A lake at a version stays unchanged. is_pinned, is_unshared, raises: see `connect`.
    """
    state = _schema_state(lake)
    with connect(lake, read_only=True, is_pinned=is_pinned, is_unshared=is_unshared) as connection:
        if lake.at is not None or _is_up_to_date(connection, state):
            yield connection
            return
    prepare_lake(lake)
    with connect(lake, read_only=True, is_pinned=is_pinned, is_unshared=is_unshared) as connection:
        yield connection


# States of schemas that were found up to date by this process: comparing them takes longer than most reads.
_UP_TO_DATE: set[tuple[object, ...]] = set()


def _is_up_to_date(connection: duckdb.DuckDBPyConnection, state: tuple[object, ...] | None) -> bool:
    """Cached `is_up_to_date`. state: of the schema, from before the connection was opened."""
    if state in _UP_TO_DATE:
        return True
    is_current = is_up_to_date(connection)
    if is_current and state is not None:
        _UP_TO_DATE.add(state)
    return is_current


def _schema_state(lake: Lake) -> tuple[object, ...] | None:
    """Value that changes with every change of a table or view; None where only DuckDB could tell."""
    version = (
        None if lake.catalog != "sqlite" else _read_sqlite(lake, "select max(schema_version) from ducklake_snapshot")
    )
    return None if version is None else (lake.address, Path(lake.address).stat().st_ino, version)


def _read_sqlite(lake: Lake, select: str) -> int | None:
    """Number in a SQLite catalog, read without DuckDB within a millisecond; None if it can't be read now."""
    rows = read_sqlite(lake.address, select)
    return int(rows[0][0]) if rows else None


def latest_version(lake: Lake) -> int:
    """Latest version. Raises as `connect`."""
    if lake.catalog == "sqlite":
        version = _read_sqlite(lake, "select max(snapshot_id) from ducklake_snapshot")
        if version is not None:
            return version
    with connect(lake, read_only=True) as connection:
        return last_version(connection, lake)


def commit(lake: Lake, message: str, body: Body, *, extra: str = "{}", other_bytes: int = 0) -> int:
    """Run `body(connection, version)` as one transaction and return its version. other_bytes: as for `connect`.

    The first of two concurrent writers wins; the other's whole transaction, including its reads, is run again. So is a
    transaction during which the catalog's server was away for less than a minute, unless the commit succeeded.
    Raises `LakeUnavailable` if the catalog stays locked for three minutes, or its server stays away.
    """
    transaction = Transaction(lake, body, message, extra)
    return transaction.run(lambda: connect(lake, other_bytes=other_bytes))


def prepare_lake(lake: Lake) -> None:
    """Create missing tables and views, and extend those of an earlier gradebook.

    Writes a probe to object storage, so that a missing permission is reported before the work.
    """
    if lake.bucket is not None:
        probe_store(lake.bucket)
    state = _schema_state(lake)
    if state in _UP_TO_DATE:
        return
    try:
        with connect(lake, read_only=True) as connection:  # readers without write permission need not write
            if _is_up_to_date(connection, state):
                return
    except NoLakeThere:
        _refuse_taken(lake)
        _make_lake(lake)
    except LostCatalog:  # unless another process has made the catalog and the folder's id meanwhile
        if not lake_exists(lake):
            raise

    def make_tables(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        if not is_up_to_date(connection):
            bring_up_to_date(connection)

    if _schema_state(lake) not in _UP_TO_DATE:
        commit(lake, "make tables", make_tables)


def _make_lake(lake: Lake) -> None:
    """Make the catalog of a new lake, and the id in its data folder."""
    make_folders(lake)
    with lake_turn, translate_lost_connection(lake, read_only=False), translate_storage_errors(lake.bucket):
        release(_open(Attached(lake, read_only=False, at=None), is_new=True))


def refuse_unusable(lake: Lake) -> None:
    """Raise `LakeError` where `prepare_lake` would, as far as that shows without writing."""
    if lake.bucket is not None:
        check_store(lake.bucket)
    if not lake_exists(lake):
        _refuse_taken(lake)
        refuse_unmakeable(lake)


def upgrade_lake(lake: Lake) -> None:
    """Upgrade an existing lake to this gradebook's tables; do nothing if there is none."""
    with suppress(NoLakeThere), connect_up_to_date(lake):
        return


def lake_exists(lake: Lake) -> bool:
    """Whether the lake exists. Raises as `connect` if its catalog can't be opened."""
    try:
        with connect(lake, read_only=True):
            return True
    except NoLakeThere:
        return False


def _refuse_taken(lake: Lake) -> None:
    """Raise `LakeError` if the catalog's file has other content; an empty file counts as missing."""
    if lake.catalog == "sqlite" and lake.is_there and os.path.getsize(lake.address) > 0:  # noqa: PTH202
        raise LakeError(lake.name, "a database of something else", "a lake's or none") from None
