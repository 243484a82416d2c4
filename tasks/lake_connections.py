"""Connections to a lake: one that was kept since an earlier block of this process, or a new one."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

from gradebook.tasks.kept_lakes import Attached, kept_lakes, let_go
from gradebook.tasks.lake_attaching import attach, last_version, pin, refuse_other_place, use_lake
from gradebook.tasks.lake_commits import roll_back
from gradebook.tasks.lake_extensions import load_extensions
from gradebook.tasks.lake_tables import CATALOG
from gradebook.tasks.object_store import allow_reading
from gradebook.tasks.sql_text import NO_PROGRESS_BAR

if TYPE_CHECKING:
    from gradebook.tasks.lake import Lake

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
