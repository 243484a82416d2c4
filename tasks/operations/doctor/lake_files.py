"""The lake's files compared with its catalog: missing, damaged, small and orphaned files."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileSystem

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.errors import LakeError, StorageUnavailable
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.compaction import small_file_count
from gradebook.tasks.lake.data_files import NamedFile, address_of, file_system, stored_files, stored_path
from gradebook.tasks.lake.errors import RESTORE
from gradebook.tasks.lake.file_digests import CHANGED, Digests, digest_file
from gradebook.tasks.lake.object_store import look_at_store
from gradebook.tasks.operations.doctor.findings import NOTE, PROBLEM, DoctorFinding, or_fine

BATCH_ROWS = 65_536
# A publication puts its files into the tables' folders before it commits, so recent files may not be orphans.
ORPHAN_AGE_S = 3_600.0
# In object storage all files are uploaded before the commit, perhaps by a machine whose locks are not visible here.
STORED_ORPHAN_AGE_S = 86_400.0
MANY_SMALL = 500  # files, of about 250 small runs: the next run takes 1.5 times as long as the first
STORAGE_FIX = "docs/storage.md explains errors of object storage"


def storage_fault(lake: Lake) -> DoctorFinding | None:
    """Problem of the lake's object storage; None if the storage answers, or if the lake does not use any."""
    if lake.bucket is None:
        return None
    try:
        look_at_store(lake.bucket)
    except (LakeError, StorageUnavailable) as error:
        return DoctorFinding("storage", PROBLEM, str(error), STORAGE_FIX)
    return None


def examine_files(files: list[NamedFile], lake: Lake, digests: Digests, *, is_deep: bool) -> Iterator[DoctorFinding]:
    """Check that each file exists with the size and digest that it was published with; object storage has no digests.

    is_deep: also read it and compare its row count with the catalog.
    """
    system = file_system(lake)
    sizes = {stored.path: stored.size for stored in stored_files(lake, system)}
    if files and not any(file.path in sizes for file in files):
        found = f"{lake.data_path}: found none of the lake's {counted(len(files), 'file')}, expected them there"
        yield DoctorFinding(
            "files", PROBLEM, found, "name the folder of the lake's files with --data, or restore a backup of them"
        )
        return
    expected = {stored_path(lake, path): each for path, each in digests.items()} if lake.bucket is None else {}
    faults = (
        f"{file.table}: {address_of(lake, file.path)}: {fault}"
        for file in files
        for fault in _faults(file, sizes, system if is_deep else None, expected.get(file.path))
    )
    read = " and read" if is_deep else ""
    count = sum(file.path in expected for file in files)
    same = f", {'all' if count == len(files) else f'{count:,}'} of them with the content that was published"
    found = f"{counted(len(files), 'file')} found{read}, as in the catalog{same if count else ''}"
    yield from or_fine((DoctorFinding("files", PROBLEM, fault, RESTORE) for fault in faults), "files", found)


def examine_small_files(connection: duckdb.DuckDBPyConnection) -> Iterator[DoctorFinding]:
    """Check for many small files, which slow down queries and runs."""
    count = small_file_count(connection)
    if count >= MANY_SMALL:
        found = f"found {count:,} small files, expected fewer than {MANY_SMALL:,}: they slow down runs and queries"
        yield DoctorFinding("files", NOTE, found, "gradebook compact")


def _faults(
    file: NamedFile, sizes: Mapping[str, int], system: FileSystem | None, digests: set[str] | None
) -> Iterator[str]:
    size = sizes.get(file.path)
    if size is None:
        yield "found no such file"
    elif file.size_bytes is not None and size != file.size_bytes:
        yield f"found {counted(size, 'byte')}, expected {file.size_bytes:,}"
    elif fault := (system and _reading_fault(file, system)) or (digests and _changed(file, digests)):
        yield fault


def _changed(file: NamedFile, digests: set[str]) -> str | None:
    try:
        return None if digest_file(file.path) in digests else CHANGED
    except OSError as error:
        return f"can't be read: {error.strerror}"


def _reading_fault(file: NamedFile, system: FileSystem) -> str | None:
    """Read a file to its end; returns its fault, if any."""
    try:
        with system.open_input_file(file.path) as opened, pq.ParquetFile(opened) as parquet:
            row_count = sum(batch.num_rows for batch in parquet.iter_batches(BATCH_ROWS))
    except (pa.ArrowException, OSError) as error:
        return f"can't be read: {str(error).splitlines()[0]}"
    if file.row_count is not None and row_count != file.row_count:
        return f"found {counted(row_count, 'row')}, expected {file.row_count:,}"
    return None


def latest_orphan(lake: Lake, now: datetime | None = None) -> datetime:
    """Latest modification time of an orphan; newer files may belong to a publication that has not committed."""
    age_s = ORPHAN_AGE_S if lake.bucket is None else STORED_ORPHAN_AGE_S
    return (now or datetime.now(UTC)) - timedelta(seconds=age_s)


def examine_orphans(lake: Lake, found: list[FileInfo]) -> Iterator[DoctorFinding]:
    """Report files that no version of the lake reads."""
    mend = "gradebook doctor --mend"
    paths = (address_of(lake, file.path) for file in found)
    findings = (DoctorFinding("orphans", NOTE, f"{path}: no version of the lake reads it", mend) for path in paths)
    yield from or_fine(findings, "orphans", "each file in the tables' folders belongs to a version")
