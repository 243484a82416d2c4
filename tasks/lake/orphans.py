"""Orphans: data files of a lake that no version reads, and their removal."""

import os
from collections.abc import Iterable
from datetime import datetime

import duckdb
from pyarrow.fs import FileInfo, FileSystem

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.data_files import file_system, is_lake_file, known_paths, stored_files
from gradebook.tasks.lake.identity import foreign_paths
from gradebook.tasks.lake.object_store import translate_storage_errors
from gradebook.tasks.workspace.folder import RUN_ID, RunFolder
from gradebook.tasks.workspace.lock import is_running


def orphans(connection: duckdb.DuckDBPyConnection, lake: Lake, before: datetime) -> list[FileInfo]:
    """Parquet files in the tables' folders that no version references, sorted by path.

    Excludes files of a publication in progress: of a running run, or stored since `before`. Excludes files that another
    program or another lake may have put there.
    """
    known = known_paths(connection, lake) | foreign_paths(lake)
    found = (file for file in stored_files(lake, file_system(lake)) if file.path not in known)
    found = (file for file in found if is_lake_file(lake, file.path) and _is_older(lake, file, before))
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
        if not (now.is_file and is_lake_file(lake, path) and _is_older(lake, now, before)):
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
    return any(is_running(RunFolder.below(lake.root, run_id)) for run_id in run_ids if RUN_ID.fullmatch(run_id))
