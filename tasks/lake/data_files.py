"""The files of a lake's tables: which of them the catalog names, which are there, and which no version reads."""

import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import duckdb
from pyarrow.fs import FileInfo, FileSelector, FileSystem, LocalFileSystem

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.object_store import faults_told, open_store
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.lake.sql import query
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import is_at_work

_LEAVING = "select path from {catalog}.ducklake_files_scheduled_for_deletion"


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that the catalog names, and what it says of it. path: as the lake's file system has it."""

    table: str
    path: str
    size_bytes: int | None
    row_count: int | None


def named_files(connection: duckdb.DuckDBPyConnection, lake: Lake) -> list[NamedFile]:
    """All files that some version of the lake reads."""
    rows = connection.execute(query("lake/data_files")).fetchall()
    return [
        # An absolute part takes the place of those before it, as in the catalog.
        NamedFile(str(table), _path(lake, schema or "", folder or "", name), size, count)
        for table, schema, folder, name, size, count in rows
    ]


def file_system(lake: Lake) -> FileSystem:
    """What reads the lake's files. Raises `LakeError` where object storage has no key."""
    return LocalFileSystem() if lake.bucket is None else open_store()


def stored_files(lake: Lake, system: FileSystem) -> Iterator[FileInfo]:
    """What lies in the tables' folders, in one listing."""
    found = system.get_file_info(FileSelector(_path(lake), recursive=True, allow_not_found=True))
    return (file for file in found if file.is_file)


def address_of(lake: Lake, path: str) -> str:
    """A file's path as people name it."""
    return path if lake.bucket is None else f"s3://{path}"


def orphans(connection: duckdb.DuckDBPyConnection, lake: Lake, before: datetime) -> list[FileInfo]:
    """The Parquet files in the tables' folders that no version reads, nor ever will, by name.

    Left out are those of a publication under way: of a run that is at work, or put there since `before`.
    """
    named = {file.path for file in named_files(connection, lake)}
    named |= {_path(lake, path) for (path,) in connection.execute(_LEAVING.format(catalog=CATALOG)).fetchall()}
    found = (file for file in stored_files(lake, file_system(lake)) if file.path not in named)
    found = (file for file in found if file.extension == "parquet" and _is_older(lake, file, before))
    return sorted((file for file in found if not _is_being_published(lake, file)), key=lambda file: file.path)


def remove_orphans(lake: Lake, found: Iterable[FileInfo], before: datetime) -> list[FileInfo]:
    """Take them away, but for what was put there anew since `before`; those that are gone.

    Raises `LakeError` and `StorageUnavailable` as `faults_told` does.
    """
    with faults_told(lake.bucket):
        system = file_system(lake)
        return [file for file in found if _is_removed(lake, system, file.path, before)]


def _is_removed(lake: Lake, system: FileSystem, path: str, before: datetime) -> bool:
    try:
        now = system.get_file_info(path)  # right before: its run may have been taken up
        if not now.is_file or not _is_older(lake, now, before):
            return False
        system.delete_file(path)
    except FileNotFoundError:  # its run took it back
        return False
    return True


def _is_older(lake: Lake, file: FileInfo, before: datetime) -> bool:
    """Whether a file was put where it is before a time.

    A run links what it wrote days ago into a table's folder just before it commits, and a link changes a file's status:
    its ctime is from that moment. An object's time is that of its upload.
    """
    if lake.bucket is not None:
        return file.mtime is not None and file.mtime < before
    try:
        return os.stat(file.path).st_ctime < before.timestamp()  # noqa: PTH116 - a path of text
    except FileNotFoundError:
        return False


def _is_being_published(lake: Lake, file: FileInfo) -> bool:
    """Whether the run whose id begins the file's name is at work."""
    name = file.base_name.partition("-shard-")[0]  # the run's id and when it was begun, hashed: see `RunFiles`
    run_ids = (name, name.rpartition("-")[0])
    return any(is_at_work(RunFolder(lake.root / "runs" / run_id)) for run_id in run_ids if run_id)


def _path(lake: Lake, *parts: str) -> str:
    return posixpath.join(lake.data_path, *parts).removeprefix("s3://")
