"""The lake's files: what the catalog names is there and reads, and nothing else lies beside it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileSystem

from gradebook.rubrics.model.errors import LakeError, StorageUnavailable
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.compaction import small_file_count
from gradebook.tasks.lake.data_files import NamedFile, address_of, file_system, stored_files
from gradebook.tasks.lake.object_store import look_at_store
from gradebook.tasks.operations.doctor.findings import NOTE, PROBLEM, Finding, or_fine

BATCH_ROWS = 65_536
# A publication puts its files into the tables' folders before it commits: until then they are in no catalog.
ORPHAN_AGE_S = 3_600.0
# It uploads all of them first, and it may be at work on a machine whose locks are not to be seen here.
STORED_ORPHAN_AGE_S = 86_400.0
MANY_SMALL = 500  # files, of about 250 small runs: the next one takes half as long again as the first
RESTORE = "restore the file from a backup of the lake's folder; nothing else holds its rows"
AS_IT_SAYS = "what it says: docs/storage.md has what storage refuses"


def storage_fault(lake: Lake) -> Finding | None:
    """Why nothing can be read where the lake's files are in object storage; None where it answers, or there is none."""
    if lake.bucket is None:
        return None
    try:
        look_at_store(lake.bucket)
    except (LakeError, StorageUnavailable) as error:
        return Finding("storage", PROBLEM, str(error), AS_IT_SAYS)
    return None


def examine_files(files: list[NamedFile], lake: Lake, *, is_deep: bool) -> Iterator[Finding]:
    """Whether each file is there with its size; is_deep: and reads, with as many rows as the catalog says."""
    system = file_system(lake)
    sizes = {stored.path: stored.size for stored in stored_files(lake, system)}
    if files and not any(file.path in sizes for file in files):
        found = f"{lake.data_path}: found none of the lake's {len(files):,} files, expected them there"
        yield Finding(
            "files", PROBLEM, found, "name the place of the lake's files with --data, or restore a backup of them"
        )
        return
    faults = (
        f"{file.table}: {address_of(lake, file.path)}: {fault}"
        for file in files
        for fault in _faults(file, sizes, system if is_deep else None)
    )
    read = "and each reads, " if is_deep else ""
    found = f"{len(files):,} files are there, {read}with what the catalog says of them"
    yield from or_fine((Finding("files", PROBLEM, fault, RESTORE) for fault in faults), "files", found)


def examine_small_files(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Whether queries and runs are slow for the many small files that runs leave."""
    count = small_file_count(connection)
    if count >= MANY_SMALL:
        found = (
            f"found {count:,} small files, expected fewer than {MANY_SMALL:,}: runs and questions slow down with them"
        )
        yield Finding("files", NOTE, found, "gradebook compact")


def _faults(file: NamedFile, sizes: Mapping[str, int], system: FileSystem | None) -> Iterator[str]:
    size = sizes.get(file.path)
    if size is None:
        yield "found no such file"
    elif file.size_bytes is not None and size != file.size_bytes:
        yield f"found {size:,} bytes, expected {file.size_bytes:,}"
    elif system is not None and (fault := _reading_fault(file, system)):
        yield fault


def _reading_fault(file: NamedFile, system: FileSystem) -> str | None:
    """What is wrong with a file that is read to its end."""
    try:
        with system.open_input_file(file.path) as opened, pq.ParquetFile(opened) as parquet:
            row_count = sum(batch.num_rows for batch in parquet.iter_batches(BATCH_ROWS))
    except (pa.ArrowException, OSError) as error:
        return f"can't be read: {str(error).splitlines()[0]}"
    if file.row_count is not None and row_count != file.row_count:
        return f"found {row_count:,} rows, expected {file.row_count:,}"
    return None


def latest_orphan(lake: Lake, now: datetime | None = None) -> datetime:
    """The time before which a file was put where it is, if it is to be held for an orphan."""
    age_s = ORPHAN_AGE_S if lake.bucket is None else STORED_ORPHAN_AGE_S
    return (now or datetime.now(UTC)) - timedelta(seconds=age_s)


def examine_orphans(lake: Lake, found: list[FileInfo]) -> Iterator[Finding]:
    """What lies in the lake's folder for nothing."""
    mend = "gradebook doctor --mend"
    paths = (address_of(lake, file.path) for file in found)
    findings = (Finding("orphans", NOTE, f"{path}: no version of the lake reads it", mend) for path in paths)
    yield from or_fine(findings, "orphans", "each file in the tables' folders is of some version")
