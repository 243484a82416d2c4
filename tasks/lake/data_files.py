"""Data files of a lake's tables: the files in the catalog, and the files in storage."""

import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
from pyarrow.fs import FileInfo, FileSelector, FileSystem, LocalFileSystem

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.object_store import open_store
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.lake.sql import query

# Below the data folder: main/TABLE/, partitions, and a name that DuckLake or a run's publication gives.
_LAKE_FILE = re.compile(
    r"main/\w+/(?:\w+=[^/]*/)*"
    r"(?:ducklake-[A-Za-z0-9-]+|[A-Za-z0-9][A-Za-z0-9_-]*-shard-\d{5,})\.parquet"
)
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
        NamedFile(str(table), stored_path(lake, schema or "", folder or "", name), size, count)
        for table, schema, folder, name, size, count in rows
    ]


def file_system(lake: Lake) -> FileSystem:
    """File system of the lake's data files. Raises `LakeError` if object storage has no key."""
    return LocalFileSystem() if lake.bucket is None else open_store()


def stored_files(lake: Lake, system: FileSystem) -> Iterator[FileInfo]:
    """Files in the tables' folders, from one listing."""
    found = system.get_file_info(FileSelector(stored_path(lake), recursive=True, allow_not_found=True))
    return (file for file in found if file.is_file)


def address_of(lake: Lake, path: str) -> str:
    """Path of a file as users write it, with s3:// for object storage."""
    return path if lake.bucket is None else f"s3://{path}"


def is_lake_file(lake: Lake, path: str) -> bool:
    """Whether gradebook may delete a file: it bears a name of its making, below the data folder and not through links.

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
    leaving = connection.execute(_LEAVING.format(catalog=CATALOG)).fetchall()
    return {file.path for file in named_files(connection, lake)} | {stored_path(lake, path) for (path,) in leaving}


def stored_path(lake: Lake, *parts: str) -> str:
    """Path below the data folder in the lake's file system, without s3://; without parts, the folder itself."""
    return posixpath.join(lake.data_path, *parts).removeprefix("s3://")
