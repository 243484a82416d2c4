"""Compaction of a lake: merge small files, remove orphans, which no version reads, and begin statistics of each table.

No version is ever removed. Each step is its own transaction: DuckLake reports a flush and a merge of one table in one
transaction as a conflict.
"""

import os
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
from pyarrow.fs import FileInfo, FileSystem

from gradebook.rubrics.model.errors import LakeError, LakeUnavailable
from gradebook.rubrics.text.wording import counted, size_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.attaching import foreign_paths
from gradebook.tasks.lake.commits import describe_commit
from gradebook.tasks.lake.connections import commit, connect, lake_exists
from gradebook.tasks.lake.data_files import address_of, file_system, is_lake_file, known_paths, stored_files
from gradebook.tasks.lake.errors import NoLakeThere, is_conflict
from gradebook.tasks.lake.object_store import translate_storage_errors
from gradebook.tasks.lake.schema import CATALOG, begin_statistics, tables_without_statistics
from gradebook.tasks.lake.sql import query, quoted
from gradebook.tasks.workspace.folder import RUN_ID, RunFolder
from gradebook.tasks.workspace.lock import is_running

FLUSHED_FROM = 2_000  # inlined rows of a table: reading fewer is faster than opening one more file
MERGED_FROM = 10  # least number of small files of a table
SMALL_BYTES = 32 * 2**20  # larger files stay unmerged, else each nightly run would rewrite them
MOST_TRIES = 4  # of a step that conflicts with a writer; the next nightly run tries again
KEPT_FOR = timedelta(days=1)  # a query that began before the merge may still read the old file

_FILES = f"""
select count(*), coalesce(sum(file_size_bytes), 0) from {CATALOG}.ducklake_data_file where end_snapshot is null
"""
_SMALL_COUNT = f"""
select count(*) from {CATALOG}.ducklake_data_file where end_snapshot is null and file_size_bytes < {SMALL_BYTES}
"""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Result of a compaction. Counts and bytes are of the Parquet files of the tables' latest version.

    flushed: tables whose inlined rows moved to a file; merged: tables whose small files were merged;
    removed_count: unreferenced files removed; left: steps skipped because of other writers.
    """

    file_count_before: int
    file_count_after: int
    bytes_before: int
    bytes_after: int
    flushed: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    removed_count: int = 0
    removed_bytes: int = 0
    left: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Summary in one sentence."""
        after = f"{counted(self.file_count_after, 'file')} of {size_words(self.bytes_after)}"
        before = f"{counted(self.file_count_before, 'file')} of {size_words(self.bytes_before)}"
        clauses = [f"nothing to merge: {after}" if after == before else f"{after} in place of {before}"]
        if self.flushed:
            clauses.append(f"rows of the catalog written to files: {', '.join(self.flushed)}")
        if self.removed_count:
            clauses.append(f"removed {counted(self.removed_count, 'unused file')} of {size_words(self.removed_bytes)}")
        if self.left:
            clauses.append(f"postponed to the next compaction, as others were writing: {', '.join(self.left)}")
        return "; ".join(clauses)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compact_lake(
    lake: Lake, now: datetime | None = None, *, flushed_from: int = FLUSHED_FROM, merged_from: int = MERGED_FROM
) -> Upkeep:
    """Begin statistics, flush, merge and clean up a lake, while others may use it.

    now: reference time for `KEPT_FOR`. Every version reads as before. Raises `LakeError` if there is no lake, or it
    can't be written.
    """
    if not lake_exists(lake):
        raise NoLakeThere(lake.name)
    now = now or datetime.now(UTC)
    count_before, bytes_before = _files(lake)
    skipped: list[str] = []
    _begin_statistics(lake, skipped)
    flushed = _compact_tables(lake, _tables_to_flush(lake, flushed_from), "flush", _FLUSH, skipped)
    merged = _compact_tables(lake, _tables_to_merge(lake, merged_from), "merge", _MERGE, skipped)
    removed = [*_remove_merged(lake, now - KEPT_FOR, skipped), *_remove_orphans(lake, now - KEPT_FOR, skipped)]
    count_after, bytes_after = _files(lake)
    return Upkeep(
        count_before,
        count_after,
        bytes_before,
        bytes_after,
        flushed,
        merged,
        len(removed),
        sum(removed),
        tuple(skipped),
    )


def small_file_count(connection: duckdb.DuckDBPyConnection) -> int:
    """Number of small files in the lake's latest version."""
    ((count,),) = connection.execute(_SMALL_COUNT).fetchall()
    return int(count)


_FLUSH = "call ducklake_flush_inlined_data('lake', table_name => '{table}')"
_MERGE = f"call ducklake_merge_adjacent_files('lake', '{{table}}', max_file_size => {SMALL_BYTES})"


def _begin_statistics(lake: Lake, skipped: list[str]) -> None:
    """Create the statistics of tables that an earlier gradebook made without them."""
    with connect(lake, read_only=True) as connection:
        tables = tables_without_statistics(connection)
    try:
        if tables:
            commit(lake, "begin statistics", lambda connection, _version: begin_statistics(connection))
    except LakeUnavailable:
        skipped.append("begin statistics")


def _files(lake: Lake) -> tuple[int, int]:
    with connect(lake, read_only=True) as connection:
        ((count, size),) = connection.execute(_FILES).fetchall()
    return int(count), int(size)


def _tables_to_flush(lake: Lake, least_count: int) -> list[str]:
    """Tables with at least this many inlined rows."""
    counts: dict[str, int] = {}
    with connect(lake, read_only=True) as connection:
        for table, inlined in connection.execute(query("lake/inlined_tables")).fetchall():
            ((count,),) = connection.execute(f'select count(*) from {CATALOG}."{quoted(inlined)}"').fetchall()
            counts[table] = counts.get(table, 0) + count
    return [table for table, count in counts.items() if count >= max(1, least_count)]


def _tables_to_merge(lake: Lake, least_count: int) -> list[str]:
    """Tables with at least this many small files."""
    with connect(lake, read_only=True) as connection:
        parameters = {"least_count": max(2, least_count), "small_bytes": SMALL_BYTES}
        return [table for (table,) in connection.execute(query("lake/scattered_tables"), parameters).fetchall()]


def _compact_tables(lake: Lake, tables: list[str], word: str, call: str, skipped: list[str]) -> tuple[str, ...]:
    """Run a step for each table; returns the tables for which it succeeded."""
    succeeded = []
    for table in tables:

        def step(connection: duckdb.DuckDBPyConnection, table: str = table) -> None:
            began = time.time()
            connection.execute("begin")
            connection.execute(call.format(table=quoted(table))).fetchall()
            describe_commit(connection, lake, f"compact {table}: {word}", {}, began)
            connection.execute("commit")

        if _succeeds(lake, step):
            succeeded.append(table)
        else:
            skipped.append(f"{word} {table}")
    return tuple(succeeded)


def _succeeds(lake: Lake, step: Callable[[duckdb.DuckDBPyConnection], None]) -> bool:
    """Try a step; returns whether it succeeded. A try that conflicts leaves files behind, so tries are few."""
    for attempt in range(MOST_TRIES):
        try:
            with connect(lake) as connection:
                step(connection)
            return True
        except duckdb.Error as error:
            if not is_conflict(error):
                raise LakeError(f"{lake.name}: its files can't be merged: {error}") from error
            time.sleep(random.uniform(0.1, 0.5 * 2**attempt))  # noqa: S311 - jitter, no secret
    return False


def _remove_merged(lake: Lake, before: datetime, skipped: list[str]) -> list[int]:
    """Remove files merged before a time; returns their sizes."""
    sizes: list[int] = []

    def step(connection: duckdb.DuckDBPyConnection) -> None:
        call = "select * from ducklake_cleanup_old_files('lake', older_than => ?, dry_run => {})"
        merged = {path for (path,) in connection.execute(call.format("true"), [before]).fetchall()}
        _refuse_foreign(lake, merged)
        files = stored_files(lake, file_system(lake)) if merged else ()
        merged_sizes = [file.size for file in files if address_of(lake, file.path) in merged]
        connection.execute(call.format("false"), [before]).fetchall()
        sizes[:] = merged_sizes

    if not _succeeds(lake, step):
        skipped.append("remove merged files")
    return sizes


def _refuse_foreign(lake: Lake, paths: Iterable[str]) -> None:
    """Raise `LakeError` for a path that is no data file of the lake: anyone who writes the catalog can add one."""
    prefix = "" if lake.bucket is None else "s3://"
    for path in sorted(paths):
        if not path.startswith(prefix) or not is_lake_file(lake, path.removeprefix(prefix)):
            raise LakeError(
                lake.name,
                f"{path} among the files that its catalog wants deleted",
                f"data files of the lake only, in {lake.data_path}",
                "nothing was deleted: the catalog was changed by something other than gradebook",
            )


def _remove_orphans(lake: Lake, before: datetime, skipped: list[str]) -> list[int]:
    """Remove unreferenced files that are unchanged since a time; returns their sizes."""
    orphan_files: list[FileInfo] = []

    def step(connection: duckdb.DuckDBPyConnection) -> None:
        orphan_files[:] = orphans(connection, lake, before)

    if not _succeeds(lake, step):
        skipped.append("remove unreferenced files")
    return [file.size for file in remove_orphans(lake, orphan_files, before)]


def orphans(connection: duckdb.DuckDBPyConnection, lake: Lake, before: datetime) -> list[FileInfo]:
    """Parquet files in the tables' folders that no version references, sorted by path.

    Excludes files of a publication in progress: of a running run, or stored since `before`. Excludes files that another
    program or another lake may have put there.
    """
    known_to_catalog = known_paths(connection, lake) | foreign_paths(lake)
    files = (file for file in stored_files(lake, file_system(lake)) if file.path not in known_to_catalog)
    files = (file for file in files if is_lake_file(lake, file.path) and _is_older(lake, file, before))
    return sorted((file for file in files if not _is_being_published(lake, file)), key=lambda file: file.path)


def remove_orphans(lake: Lake, files: Iterable[FileInfo], before: datetime) -> list[FileInfo]:
    """Delete orphans, except files stored again since `before`; returns the deleted files.

    Raises `LakeError` and `StorageUnavailable` as `translate_storage_errors` does.
    """
    with translate_storage_errors(lake.bucket):
        system = file_system(lake)
        return [file for file in files if _is_removed(lake, system, file.path, before)]


def _is_removed(lake: Lake, system: FileSystem, path: str, before: datetime) -> bool:
    try:
        file = system.get_file_info(path)  # checked right before deletion: its run may have been resumed
        if not (file.is_file and is_lake_file(lake, path) and _is_older(lake, file, before)):
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
    """Whether the file belongs to a run that is running: the file's name begins with the run's id."""
    name = file.base_name.partition("-shard-")[0]  # the run's id and a hash of its start time: see `RunFiles`
    run_ids = (name, name.rpartition("-")[0])
    return any(is_running(RunFolder.below(lake.root, run_id)) for run_id in run_ids if RUN_ID.fullmatch(run_id))
