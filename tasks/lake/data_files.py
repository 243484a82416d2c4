"""Data files of a lake's tables: the files in the catalog, the files in storage, and the orphans."""

import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import duckdb
from pyarrow.fs import FileInfo, FileSelector, FileSystem, LocalFileSystem

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.object_store import open_store, translate_storage_errors
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.lake.sql import query
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import is_running

_LEAVING = "select path from {catalog}.ducklake_files_scheduled_for_deletion"


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
        # An absolute part takes the place of those before it, as in the catalog.
        NamedFile(str(table), _path(lake, schema or "", folder or "", name), size, count)
        for table, schema, folder, name, size, count in rows
    ]


def file_system(lake: Lake) -> FileSystem:
    """File system of the lake's data files. Raises `LakeError` if object storage has no key."""
    return LocalFileSystem() if lake.bucket is None else open_store()


def stored_files(lake: Lake, system: FileSystem) -> Iterator[FileInfo]:
    """Files in the tables' folders, from one listing."""
    found = system.get_file_info(FileSelector(_path(lake), recursive=True, allow_not_found=True))
    return (file for file in found if file.is_file)


def address_of(lake: Lake, path: str) -> str:
    """Path of a file as users write it, with s3:// for object storage."""
    return path if lake.bucket is None else f"s3://{path}"


def orphans(connection: duckdb.DuckDBPyConnection, lake: Lake, before: datetime) -> list[FileInfo]:
    """Parquet files in the tables' folders that no version references, sorted by path.

    Excludes files of a publication in progress: of a running run, or stored since `before`.
    """
    named = {file.path for file in named_files(connection, lake)}
    named |= {_path(lake, path) for (path,) in connection.execute(_LEAVING.format(catalog=CATALOG)).fetchall()}
    found = (file for file in stored_files(lake, file_system(lake)) if file.path not in named)
    found = (file for file in found if file.extension == "parquet" and _is_older(lake, file, before))
    return sorted((file for file in found if not _is_being_published(lake, file)), key=lambda file: file.path)


def remove_orphans(lake: Lake, found: Iterable[FileInfo], before: datetime) -> list[FileInfo]:
    """Delete orphans, except files stored again since `before`; returns the deleted ones.

    Raises `LakeError` and `StorageUnavailable` as `translate_storage_errors` does.
    """
    with translate_storage_errors(lake.bucket):
        system = file_system(lake)
        return [file for file in found if _is_removed(lake, system, file.path, before)]


def _is_removed(lake: Lake, system: FileSystem, path: str, before: datetime) -> bool:
    try:
        now = system.get_file_info(path)  # checked right before deletion: its run may have been resumed
        if not now.is_file or not _is_older(lake, now, before):
            return False
        system.delete_file(path)
    except FileNotFoundError:  # the resumed run moved it
        return False
    return True


def _is_older(lake: Lake, file: FileInfo, before: datetime) -> bool:
    """Whether a file was put in its place before a time.

    A run hard-links files written days ago into a table's folder just before it commits. Linking changes the file's
    status, so its ctime is the time of linking. The time of an object is that of its upload.
    """
    if lake.bucket is not None:
        return file.mtime is not None and file.mtime < before
    try:
        return os.stat(file.path).st_ctime < before.timestamp()  # noqa: PTH116 - a path of text
    except FileNotFoundError:
        return False


def _is_being_published(lake: Lake, file: FileInfo) -> bool:
    """Whether the run whose id begins the file's name is running."""
    name = file.base_name.partition("-shard-")[0]  # the run's id and a hash of its start time: see `RunFiles`
    run_ids = (name, name.rpartition("-")[0])
    return any(is_running(RunFolder(lake.root / "runs" / run_id)) for run_id in run_ids if run_id)


def _path(lake: Lake, *parts: str) -> str:
    return posixpath.join(lake.data_path, *parts).removeprefix("s3://")
