"""Data files of a lake's tables: the files in the catalog, the files in storage, and their digests.

The digests are in the log entry of the version that added the files. Neither DuckDB nor Arrow notices most changed
bits of a Parquet file: they read another value, or fewer rows. A digest finds damage, not forgery: whoever changes a
file may change the catalog too. Object storage has checksums of its own.
"""

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
from pyarrow.fs import FileInfo, FileSelector, FileSystem, LocalFileSystem

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.object_store import open_store
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.lake.sql import query, read_sqlite

# Below the data folder: main/TABLE/, partitions, and a name that DuckLake or a run's publication gives.
_LAKE_FILE = re.compile(
    r"main/\w+/(?:\w+=[^/]*/)*"
    r"(?:ducklake-[A-Za-z0-9-]+|[A-Za-z0-9][A-Za-z0-9_-]*-shard-\d{5,})\.parquet"
)
_SCHEDULED = "select path from {catalog}.ducklake_files_scheduled_for_deletion"


@dataclass(frozen=True, slots=True)
class NamedFile:
    """File listed in the catalog, with the catalog's size and row count. path: as in the lake's file system."""

    table: str
    path: str
    size_bytes: int | None
    row_count: int | None


def named_files(connection: duckdb.DuckDBPyConnection, lake: Lake) -> list[NamedFile]:
    """All files that some version of the lake reads."""
    rows = connection.execute(query("lake/data_files")).fetchall()
    return [
        # In a join, an absolute path replaces the parts before it, as in the catalog.
        NamedFile(str(table), stored_path(lake, schema or "", folder or "", name), size, count)
        for table, schema, folder, name, size, count in rows
    ]


def file_system(lake: Lake) -> FileSystem:
    """File system of the lake's data files. Raises `LakeError` if object storage has no key."""
    return LocalFileSystem() if lake.bucket is None else open_store()


def stored_files(lake: Lake, system: FileSystem) -> Iterator[FileInfo]:
    """Files in the tables' folders, from one listing."""
    files = system.get_file_info(FileSelector(stored_path(lake), recursive=True, allow_not_found=True))
    return (file for file in files if file.is_file)


def address_of(lake: Lake, path: str) -> str:
    """Path of a file as users write it, with s3:// for object storage."""
    return path if lake.bucket is None else f"s3://{path}"


def is_lake_file(lake: Lake, path: str) -> bool:
    """Whether gradebook may delete a file: its name is one that gradebook gives, below the data folder, without links.

    path: as in the lake's file system. The data folder itself may be a link.
    """
    folder = f"{stored_path(lake)}/"
    if not path.startswith(folder) or not _LAKE_FILE.fullmatch(path.removeprefix(folder)):
        return False
    if lake.bucket is not None:
        return True
    resolved = os.path.join(os.path.realpath(folder), path.removeprefix(folder))  # noqa: PTH118 - a path of text
    return os.path.realpath(path) == resolved


def known_paths(connection: duckdb.DuckDBPyConnection, lake: Lake) -> set[str]:
    """Files that some version of the lake reads, or that the catalog schedules for deletion."""
    leaving = connection.execute(_SCHEDULED.format(catalog=CATALOG)).fetchall()
    return {file.path for file in named_files(connection, lake)} | {stored_path(lake, path) for (path,) in leaving}


def stored_path(lake: Lake, *parts: str) -> str:
    """Path below the data folder in the lake's file system, without s3://; without parts, the folder itself."""
    return posixpath.join(lake.data_path, *parts).removeprefix("s3://")


DIGESTS = "files"  # key of the digests in a commit's extra info
DIGEST_BYTES = 8
MOST_BYTES = 32 * 2**20  # size of the files that a command compares before it reads a lake: at most 40 ms
CHANGED = "its content is not what was published"
_DIGESTED = (
    "select commit_extra_info from {catalog}ducklake_snapshot_changes where commit_extra_info like '%\"files\"%' "
    "order by snapshot_id desc"
)
# Paths below the data folder. A table never changes its folder, but has one row per change.
_NAMED = (
    "select distinct schemas.path || tables.path || files.path as path from {catalog}ducklake_data_file as files "
    "inner join {catalog}ducklake_table as tables on files.table_id = tables.table_id "
    "inner join {catalog}ducklake_schema as schemas on tables.schema_id = schemas.schema_id"
)
_KNOWN = f"select path from ({_NAMED.format(catalog=f'{CATALOG}.')}) where list_contains(?, path)"

Digests = dict[str, set[str]]


def digests_of(connection: duckdb.DuckDBPyConnection, lake: Lake, paths: Iterable[str]) -> dict[str, str]:
    """Digests of those `paths` that are existing Parquet files, by the path below the data folder.

    A file of an earlier version has a stored digest already, and its content may be damaged now.
    """
    folder = f"{stored_path(lake)}/"
    new_paths = [path.removeprefix(folder) for path in paths if path.endswith(".parquet")]
    known_to_catalog = {path for (path,) in connection.execute(_KNOWN, [new_paths]).fetchall()} if new_paths else set()
    digests = {path: digest_file(folder + path) for path in new_paths if path not in known_to_catalog}
    return {path: digest for path, digest in digests.items() if digest is not None}


def digest_file(path: str | Path) -> str | None:
    """Digest of a file's content, 16 hex digits; None if the file is gone."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of text
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).hexdigest()
    except FileNotFoundError:
        return None


def stored_digests(connection: duckdb.DuckDBPyConnection) -> Digests:
    """Digests by path below the data folder.

    A file has two digests if another transaction saw it before its own transaction committed, perhaps incomplete.
    """
    return _parse(extra for (extra,) in connection.execute(_DIGESTED.format(catalog=f"{CATALOG}.")).fetchall())


def changed_newest_files(lake: Lake) -> list[str]:
    """Changed files among the newest `MOST_BYTES`; `gradebook doctor` compares all files.

    Empty for a catalog in PostgreSQL, where the comparison costs a connection, and for object storage.
    """
    if lake.catalog != "sqlite" or lake.bucket is not None:
        return []
    rows = read_sqlite(lake.address, _DIGESTED.format(catalog=""))
    named_paths = {path for (path,) in read_sqlite(lake.address, _NAMED.format(catalog=""))}
    return list(_changed(lake, _parse(extra for (extra,) in rows), named_paths))


def _changed(lake: Lake, digests: Digests, named_paths: set[str]) -> Iterator[str]:
    left_bytes = MOST_BYTES
    for path, expected in digests.items():
        file = Path(stored_path(lake, path))
        is_below = posixpath.normpath(path) == path and not path.startswith(("/", ".."))
        if (
            not is_below or path not in named_paths or not file.is_file()
        ):  # merged meanwhile, or not written by gradebook
            continue
        left_bytes -= file.stat().st_size
        if left_bytes < 0:
            return
        if digest_file(file) not in expected:
            yield str(file)


def _parse(extras: Iterable[str]) -> Digests:
    """Digests from the extra information of commits, in order. Ignores commits that gradebook did not write."""
    digests: Digests = {}
    for extra in extras:
        try:
            files = json.loads(extra)[DIGESTS]
            for path, digest in files.items():
                digests.setdefault(path, set()).add(digest)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
    return digests
