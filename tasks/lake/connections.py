"""Connections to a lake: one that was kept since an earlier block of this process, or a new one."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import duckdb

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.attaching import (
    attach,
    last_version,
    load_extensions,
    make_folders,
    pin,
    refuse_other_place,
    refuse_unmakeable,
    refused_if_missing,
    use_lake,
)
from gradebook.tasks.lake.commits import Body, Transaction, roll_back
from gradebook.tasks.lake.connection_cache import Attached, kept_lakes, let_go
from gradebook.tasks.lake.errors import NoLakeThere, losses_told
from gradebook.tasks.lake.object_store import allow_reading, faults_told, look_at_store, probe_store
from gradebook.tasks.lake.schema import CATALOG, bring_up_to_date, is_up_to_date
from gradebook.tasks.lake.sql import NO_PROGRESS_BAR

EXTENSIONS = {"sqlite": "sqlite_scanner", "postgres": "postgres_scanner"}
# A second thread adds half to what a query of a few rows costs; a query of these many bytes is fast with one.
ONE_THREAD_BYTES = 64 * 2**20
# Of files in object storage: threads wait for them side by side, which for a few does not make up for that.
ONE_THREAD_FILES = 100
_DATA_SIZE = f"select coalesce(sum(file_size_bytes), 0), count(*) from {CATALOG}.ducklake_data_file"
_verified: set[str] = set()  # the extensions that this process has loaded with their signatures checked


@contextmanager
def attached_lake(
    attached: Attached, other_bytes: int, *, is_pinned: bool, is_unshared: bool
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a lake, one that was kept or a new one; `connect` says what the options are."""
    lake = attached.lake
    is_pinned = is_pinned and attached.at is None
    is_kept = attached.can_be_kept and not is_unshared
    if is_kept and is_pinned:
        attached = replace(attached, at=_version_now(attached))
    root = (kept_lakes.take(attached) if is_kept else None) or _open(attached)
    connection = root
    try:
        if is_kept:
            connection = root.cursor()  # whose temporary tables are gone with it
            connection.execute(NO_PROGRESS_BAR)
            use_lake(connection, lake)
        elif is_pinned:
            pin(connection, lake)
        if other_bytes > ONE_THREAD_BYTES or _is_large(connection, lake):
            connection.execute("reset threads")
            is_kept = False  # it holds the files' bytes as well
        yield connection
    except BaseException:
        is_kept = False
        raise
    finally:
        roll_back(connection)  # DuckDB aborts the process where a close has to, and the catalog's server is gone
        if connection is not root:
            connection.close()
        if is_kept:
            kept_lakes.keep(attached, root)
        else:
            let_go(root)


def _version_now(attached: Attached) -> int:
    """The version that is the last one, of a lake that can be kept."""
    root = kept_lakes.take(attached) or _open(attached)
    try:
        version = last_version(root, attached.lake)
    except BaseException:
        let_go(root)
        raise
    kept_lakes.keep(attached, root)
    return version


def _open(attached: Attached) -> duckdb.DuckDBPyConnection:
    """A new connection with the lake attached."""
    lake = attached.lake
    # DuckDB hashes 70 MB to check the extensions' signatures: 90 ms, once a process and not at each of a dozen turns.
    extensions = ("ducklake", EXTENSIONS[lake.catalog], *(("httpfs",) if lake.bucket else ()))
    connection = duckdb.connect(config={"allow_unsigned_extensions": _verified.issuperset(extensions), "threads": 1})
    try:
        connection.execute(NO_PROGRESS_BAR)
        load_extensions(connection, *extensions)
        _verified.update(extensions)
        if lake.bucket is not None:
            allow_reading(connection, lake.bucket)
        attach(connection, lake, read_only=attached.read_only, at=attached.at)
        refuse_other_place(connection, lake)
    except BaseException:
        let_go(connection)
        raise
    return connection


def _is_large(connection: duckdb.DuckDBPyConnection, lake: "Lake") -> bool:
    with suppress(duckdb.Error):  # somebody commits at this moment
        # one row taken would leave the query open, and the catalog read
        ((size_bytes, file_count),) = connection.execute(_DATA_SIZE).fetchall()
        is_scattered = lake.bucket is not None and file_count > ONE_THREAD_FILES
        return is_scattered or bool(size_bytes > ONE_THREAD_BYTES)
    return True


# Two threads of one process that use one SQLite catalog at once wait for each other for ever (DuckDB 1.5.5): a thread
# at a time. Processes do not: they meet as conflicts.
_TURN = threading.RLock()


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
    """A connection with the lake as its default database; `at`: as it was at that version, not at `lake.at`.

    is_pinned: all that the block reads is of the version that is the last one now, whatever others commit meanwhile. Of
    a dozen queries or more each takes half the time: DuckLake looks for no newer version.
    is_unshared: the block changes settings or the database `memory`, which another one would meet.
    other_bytes: what the block reads beside the lake: queries of a small lake and little else run on one thread.
    Raises `LakeError` where there is no lake, it can't be opened or written, or the version lacks what the block reads,
    and `LakeUnavailable` where its server is gone, or others hold it for minutes.
    """
    at = lake.at if at is None else at
    if read_only and not lake.is_there:
        raise NoLakeThere(lake.name)
    if not read_only:
        make_folders(lake)
    with _TURN, losses_told(lake, read_only=read_only), faults_told(lake.bucket):
        attached = Attached(lake, read_only, at)
        with (
            attached_lake(attached, other_bytes, is_pinned=is_pinned, is_unshared=is_unshared) as connection,
            refused_if_missing(connection, lake, at),
        ):
            yield connection


@contextmanager
def connect_up_to_date(
    lake: Lake, *, is_pinned: bool = False, is_unshared: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the lake to read; the tables and views of an earlier gradebook are brought up to date first.

    A lake at a version stays as it was. is_pinned, is_unshared: as for `connect`, which says what is raised.
    """
    with connect(lake, read_only=True, is_pinned=is_pinned, is_unshared=is_unshared) as connection:
        if lake.at is not None or is_up_to_date(connection):
            yield connection
            return
    prepare_lake(lake)
    with connect(lake, read_only=True, is_pinned=is_pinned, is_unshared=is_unshared) as connection:
        yield connection


def commit(lake: Lake, message: str, body: Body, *, extra: str = "{}", other_bytes: int = 0) -> int:
    """Run `body(connection, version)` as one transaction and return its version. other_bytes: as for `connect`.

    The first of two writers wins; the other one's whole transaction, with all that it read, is run again. So it is
    where the catalog's server went away for less than a minute, unless it went through.
    Raises `LakeUnavailable` where the catalog stays locked for three minutes, or its server away.
    """
    transaction = Transaction(lake, body, message, extra)
    return transaction.run(lambda: connect(lake, other_bytes=other_bytes))


def prepare_lake(lake: Lake) -> None:
    """Make the tables and views that are not there yet, and widen those of an earlier gradebook.

    Object storage is written to, so that whoever can't is told so before the work.
    """
    if lake.bucket is not None:
        probe_store(lake.bucket)
    try:
        with connect(lake, read_only=True) as connection:  # whoever may only read need not write
            if is_up_to_date(connection):
                return
    except NoLakeThere:
        _refuse_taken(lake)

    def make_tables(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        if not is_up_to_date(connection):
            bring_up_to_date(connection)

    commit(lake, "make tables", make_tables)


def refuse_unusable(lake: Lake) -> None:
    """Raise `LakeError` where `prepare_lake` would, as far as looking shows it: nothing is written."""
    if lake.bucket is not None:
        look_at_store(lake.bucket)
    if not lake_exists(lake):
        _refuse_taken(lake)
        refuse_unmakeable(lake)


def upgrade_lake(lake: Lake) -> None:
    """Bring the tables of a lake that is there up to what this gradebook reads; do nothing where there is none."""
    with suppress(NoLakeThere), connect_up_to_date(lake):
        return


def lake_exists(lake: Lake) -> bool:
    """Whether the lake was created already. Raises as `connect` where its catalog can't be opened."""
    if not lake.is_there:
        return False
    try:
        with connect(lake, read_only=True):
            return True
    except NoLakeThere:
        return False


def _refuse_taken(lake: Lake) -> None:
    """Raise `LakeError` where the catalog's file holds something else; an empty file is as good as none."""
    if lake.catalog == "sqlite" and lake.is_there and os.path.getsize(lake.address) > 0:  # noqa: PTH202
        raise LakeError(lake.name, "a database of something else", "a lake's or none") from None
