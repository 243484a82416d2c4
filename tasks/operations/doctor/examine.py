"""Examination of a lake and the machine, and the safe fixes of `--mend`.

Of a lake: its tables and rows, and its files compared with its catalog: missing, damaged, small and orphaned ones. Of
the machine: package versions, the catalog's format, disk space, and Prefect's server.
"""

import os
import platform
import shutil
import stat
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from packaging.requirements import Requirement
from pyarrow.fs import FileInfo, FileSystem

from gradebook.rubrics.model.errors import LakeError, StorageUnavailable, UnfinishedError
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, output_id, stored_output
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.attaching import folders_of
from gradebook.tasks.lake.compaction import orphans, remove_orphans, small_file_count
from gradebook.tasks.lake.connections import connect, upgrade_lake
from gradebook.tasks.lake.data_files import (
    CHANGED,
    Digests,
    NamedFile,
    address_of,
    digest_file,
    file_system,
    named_files,
    stored_digests,
    stored_files,
    stored_path,
)
from gradebook.tasks.lake.errors import RESTORE, NoLakeThere
from gradebook.tasks.lake.object_store import check_store
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.schema import CATALOG, is_up_to_date, missing_parts
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.ledger.verify import verify_ledger
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, DoctorFinding, findings_or_ok
from gradebook.tasks.operations.doctor.unfinished_runs import (
    examine_identities,
    examine_journals,
    examine_running,
    examine_unreadable,
    examine_untidy,
    mark_dead_runs_failed,
    runs_of,
    tidy_runs,
    untidy_runs,
)
from gradebook.tasks.system.prefect_settings import prefect_home
from gradebook.tasks.system.secret_values import without_password
from gradebook.tasks.workspace.folder import RunFolder

BATCH_ROWS = 2_000
SAMPLE_ROWS = 1_000
_CHANGED = "published data was changed: leave the lake as it is, and restore a backup into another folder"

_PUBLISHED_TWICE = """
select run_id, count(*) as row_count from runs group by run_id having count(*) > 1 order by run_id
"""
_PAID_TWICE = """
select judgment_id, count(*) as row_count from judgments group by judgment_id having count(*) > 1 order by judgment_id
"""
_COUNT = "select count(*) from outputs"


def examine_counts(connection: duckdb.DuckDBPyConnection) -> Iterator[DoctorFinding]:
    """Check each run's counts of read, scored, unscored and refused rows, and its cost."""
    runs = read_rows(connection, query("operations/run_counts"))
    faults = (f"{run['run_id']}: {fault}" for run in runs for fault in _count_faults(run))
    summary = f"{counted(len(runs), 'published run')}: rows and dollars add up"
    yield from findings_or_ok(
        (DoctorFinding("counts", PROBLEM, fault, _CHANGED) for fault in faults), "counts", summary
    )


def examine_doubles(connection: duckdb.DuckDBPyConnection) -> Iterator[DoctorFinding]:
    """Check that each run and each judgment is stored once."""
    runs = (f"run {row['run_id']}: {row['row_count']} rows" for row in read_rows(connection, _PUBLISHED_TWICE))
    judgments = (
        f"judgment {row['judgment_id']}: {row['row_count']} rows" for row in read_rows(connection, _PAID_TWICE)
    )
    faults = (fault for group in (runs, judgments) for fault in group)
    findings = (DoctorFinding("doubles", PROBLEM, f"{fault}, expected one", _CHANGED) for fault in faults)
    yield from findings_or_ok(findings, "doubles", "each run and each judgment is stored once")


def _count_faults(run: dict[str, object]) -> Iterator[str]:
    counts = {name: value for name, value in run.items() if isinstance(value, int)}
    outputs, scores = counts.get("output_count", 0), counts["score_count"]
    if outputs != scores:
        yield f"found {counted(scores, 'scored output')}, expected {outputs:,}"
    if counts["verdict_count"] != counts["judged_count"] * counts["criterion_count"]:
        expected = f"{counts['criterion_count']:,} for each of {counted(counts['judged_count'], 'output')}"
        yield f"found {counted(counts['verdict_count'], 'verdict')}, expected {expected}"
    if counts["odd_count"]:
        yield f"found {counted(counts['odd_count'], 'verdict')} neither scored nor unscored"
    # A row that the file repeats counts as two rows and one output: there may be more rows than outputs, never fewer.
    if "row_count" in counts and outputs + counts["refused_count"] > counts["row_count"]:
        yield (
            f"found {counted(outputs, 'output')} and {counted(counts['refused_count'], 'refused row')}, "
            f"expected at most the {counted(counts['row_count'], 'row')} of the input"
        )
    stated_usd, paid_usd = run["cost_usd"], run["paid_usd"]
    is_known = isinstance(stated_usd, float) and isinstance(paid_usd, float) and not counts["unpriced_count"]
    if is_known and abs(stated_usd - paid_usd) > 1e-9 * max(1.0, abs(paid_usd)):  # type: ignore[operator, arg-type]
        yield f"found ${stated_usd} in its row, expected ${paid_usd}, the sum of its judgments"


def examine_outputs(connection: duckdb.DuckDBPyConnection, *, is_deep: bool) -> Iterator[DoctorFinding]:
    """Check that the ids of outputs match their content; is_deep: all outputs instead of a sample."""
    ((all_count,),) = connection.execute(_COUNT).fetchall()
    sample = "" if is_deep else f" using sample reservoir({SAMPLE_ROWS} rows) repeatable (8)"
    reader = connection.execute(f"select output_id, {', '.join(OUTPUT_COLUMNS)} from outputs{sample}").to_arrow_reader(
        BATCH_ROWS
    )
    ids = ((row["output_id"], output_id(stored_output(row))) for batch in reader for row in batch.to_pylist())
    wrong = (
        f"output {stored_id}: its content has the id {computed_id}"
        for stored_id, computed_id in ids
        if stored_id != computed_id
    )
    checked_count = all_count if is_deep else min(SAMPLE_ROWS, all_count)
    summary = f"{checked_count:,} of {counted(all_count, 'output')}: each id matches its content"
    yield from findings_or_ok(
        (DoctorFinding("outputs", PROBLEM, fault, _CHANGED) for fault in wrong), "outputs", summary
    )


def examine_ledger(lake: Lake) -> Iterator[DoctorFinding]:
    """Check that the key of each judgment matches its request, and that each verdict has its judgment."""
    verification = verify_ledger(lake)
    for why, count in sorted(verification.not_recomputed.items()):
        yield DoctorFinding("ledger", NOTE, f"not checked: {count} {why}")
    if verification.finding_count:
        summary = f"{counted(verification.finding_count, 'difference')} between judgments or verdicts and the ledger"
        yield DoctorFinding("ledger", PROBLEM, summary, "gradebook lake ledger verify")
    else:
        judgments = counted(verification.judgment_count, "judgment")
        summary = f"{judgments} and {counted(verification.verdict_count, 'verdict')} agree"
        yield from findings_or_ok((), "ledger", summary)


MOST_PARTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Examination:
    """Outcome of an examination. mended: fixes applied before it, one sentence each."""

    findings: tuple[DoctorFinding, ...]
    mended: tuple[str, ...] = ()

    @property
    def problem_count(self) -> int:
        """Number of findings that are problems."""
        return sum(finding.severity == PROBLEM for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """JSON object printed by `--json`."""
        return {
            "problem_count": self.problem_count,
            "findings": [asdict(finding) for finding in self.findings],
            "mended": list(self.mended),
        }


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Runs, folders and files that safe fixes apply to, at the time the lake was read."""

    running: list[str]
    untidy: list[RunFolder]
    orphans: list[FileInfo]


def examine_lake(lake: Lake, *, is_deep: bool = False, mended: tuple[str, ...] = ()) -> Examination:
    """Examine a lake and the machine without writing. Raises `NoLakeThere` if there is no lake.

    is_deep: also read every file and recompute every id and key.
    """
    findings = [*examine_versions(), *_lake_findings(lake, is_deep=is_deep), *examine_disk(lake)]
    findings += [*examine_access(lake), examine_server()]
    return Examination(tuple(findings), mended)


def fix_lake(lake: Lake) -> tuple[str, ...]:
    """Apply the safe fixes; returns one sentence for each.

    Moves replies into the ledger, marks runs whose process is gone as failed, and deletes working files of published
    runs and files of no version. Raises `LakeError` if the lake can't be opened or written.
    """
    upgrade_lake(lake)
    with connect(lake):  # checks that the data folder is this catalog's
        pass
    with connect(lake, read_only=True) as connection:
        leftovers = _leftovers(connection, lake)
    failed_runs = mark_dead_runs_failed(lake, leftovers.running)
    tidied = tidy_runs(leftovers.untidy)
    removed = remove_orphans(lake, leftovers.orphans, latest_orphan(lake))
    notes: list[str] = []
    settled_count = settle_journals(lake, notes)
    fixes = [f"{counted(settled_count, 'reply', 'replies')} moved into the ledger"] if settled_count else []
    fixes += notes
    fixes += [f"{run_id}: marked as failed" for run_id in failed_runs]
    fixes += [f"{run_id}: working files deleted" for run_id in tidied]
    return (*fixes, *(f"{address_of(lake, file.path)}: removed" for file in removed))


def _lake_findings(lake: Lake, *, is_deep: bool) -> Iterator[DoctorFinding]:
    if lake.is_there and (fault := storage_fault(lake)) is not None:
        yield fault
        return
    try:
        with connect(lake, read_only=True) as connection:
            yield examine_catalog(connection, lake)
            is_whole = is_up_to_date(connection)
            yield _table_finding(connection, is_whole=is_whole)
            files = named_files(connection, lake)
            yield from examine_files(files, lake, stored_digests(connection), is_deep=is_deep)
            yield from examine_small_files(connection)
            if is_whole:
                yield from _row_findings(connection, lake, is_deep=is_deep)
    except NoLakeThere:
        raise
    except (LakeError, UnfinishedError) as error:
        yield DoctorFinding("catalog", PROBLEM, str(error), _catalog_fix(lake, error))
        return
    except duckdb.Error as error:
        # Missing and unreadable files of the catalog are reported above.
        yield DoctorFinding(
            "tables", PROBLEM, f"can't be read: {str(error).splitlines()[0]}", "see the findings on files"
        )
        return
    if is_whole and is_deep:
        yield from examine_ledger(lake)


def _catalog_fix(lake: Lake, error: LakeError | UnfinishedError) -> str:
    location = error.place if isinstance(error, LakeError) else ""
    is_of_bucket = lake.bucket is not None and location.startswith(lake.bucket.uri)
    if isinstance(error, StorageUnavailable) or location.startswith("--data") or is_of_bucket:
        return STORAGE_FIX
    return "restore the catalog from a backup, or start its server; the Parquet files are not affected"


def _table_finding(connection: duckdb.DuckDBPyConnection, *, is_whole: bool) -> DoctorFinding:
    if is_whole:
        return DoctorFinding("tables", OK, "all tables, columns and views exist")
    missing = missing_parts(connection)
    first_parts = ", ".join(missing[:MOST_PARTS_SHOWN]) or "the current text of its views"
    more = f" and {len(missing) - MOST_PARTS_SHOWN:,} more" if len(missing) > MOST_PARTS_SHOWN else ""
    summary = f"made by an earlier gradebook: lacks {first_parts}{more}"
    return DoctorFinding("tables", PROBLEM, summary, "`gradebook evaluate`, or `gradebook doctor --mend`")


def _row_findings(connection: duckdb.DuckDBPyConnection, lake: Lake, *, is_deep: bool) -> Iterator[DoctorFinding]:
    leftovers = _leftovers(connection, lake)
    yield from examine_orphans(lake, leftovers.orphans)
    yield from examine_running(lake, leftovers.running)
    yield from examine_untidy(leftovers.untidy)
    yield from examine_identities(lake)
    yield from examine_journals(lake)
    yield from examine_unreadable(lake)
    yield from examine_doubles(connection)
    yield from examine_counts(connection)
    yield from examine_outputs(connection, is_deep=is_deep)


def _leftovers(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Leftovers:
    unread = orphans(connection, lake, latest_orphan(lake))
    return Leftovers(runs_of(connection, "running"), untidy_runs(lake, runs_of(connection, "published")), unread)


FILE_BATCH_ROWS = 65_536
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
        check_store(lake.bucket)
    except (LakeError, StorageUnavailable) as error:
        return DoctorFinding("storage", PROBLEM, str(error), STORAGE_FIX)
    return None


def examine_files(files: list[NamedFile], lake: Lake, digests: Digests, *, is_deep: bool) -> Iterator[DoctorFinding]:
    """Check that each file exists with the size and digest that it was published with; object storage has no digests.

    is_deep: also read it and compare its row count with the catalog.
    """
    system = file_system(lake)
    sizes = {info.path: info.size for info in stored_files(lake, system)}
    if files and not any(file.path in sizes for file in files):
        summary = f"{lake.data_path}: found none of the lake's {counted(len(files), 'file')}, expected them there"
        yield DoctorFinding(
            "files", PROBLEM, summary, "name the folder of the lake's files with --data, or restore a backup of them"
        )
        return
    expected = (
        {stored_path(lake, path): file_digests for path, file_digests in digests.items()} if lake.bucket is None else {}
    )
    faults = (
        f"{file.table}: {address_of(lake, file.path)}: {fault}"
        for file in files
        for fault in _file_faults(file, sizes, system if is_deep else None, expected.get(file.path))
    )
    read_note = " and read" if is_deep else ""
    count = sum(file.path in expected for file in files)
    digest_note = f", {'all' if count == len(files) else f'{count:,}'} of them with the content that was published"
    summary = f"{counted(len(files), 'file')} found{read_note}, as in the catalog{digest_note if count else ''}"
    yield from findings_or_ok((DoctorFinding("files", PROBLEM, fault, RESTORE) for fault in faults), "files", summary)


def examine_small_files(connection: duckdb.DuckDBPyConnection) -> Iterator[DoctorFinding]:
    """Check for many small files, which slow down queries and runs."""
    count = small_file_count(connection)
    if count >= MANY_SMALL:
        summary = f"found {count:,} small files, expected fewer than {MANY_SMALL:,}: they slow down runs and queries"
        yield DoctorFinding("files", NOTE, summary, "gradebook lake compact")


def _file_faults(
    file: NamedFile, sizes: Mapping[str, int], system: FileSystem | None, digests: set[str] | None
) -> Iterator[str]:
    size = sizes.get(file.path)
    if size is None:
        yield "found no such file"
    elif file.size_bytes is not None and size != file.size_bytes:
        yield f"found {counted(size, 'byte')}, expected {file.size_bytes:,}"
    elif fault := (system and _read_fault(file, system)) or (digests and _digest_fault(file, digests)):
        yield fault


def _digest_fault(file: NamedFile, digests: set[str]) -> str | None:
    try:
        return None if digest_file(file.path) in digests else CHANGED
    except OSError as error:
        return f"can't be read: {error.strerror}"


def _read_fault(file: NamedFile, system: FileSystem) -> str | None:
    """Read a file to its end; returns its fault, if any."""
    try:
        with system.open_input_file(file.path) as source, pq.ParquetFile(source) as parquet:
            row_count = sum(batch.num_rows for batch in parquet.iter_batches(FILE_BATCH_ROWS))
    except (pa.ArrowException, OSError) as error:
        return f"can't be read: {str(error).splitlines()[0]}"
    if file.row_count is not None and row_count != file.row_count:
        return f"found {counted(row_count, 'row')}, expected {file.row_count:,}"
    return None


def latest_orphan(lake: Lake, now: datetime | None = None) -> datetime:
    """Latest modification time of an orphan; newer files may belong to a publication that has not committed."""
    age_s = ORPHAN_AGE_S if lake.bucket is None else STORED_ORPHAN_AGE_S
    return (now or datetime.now(UTC)) - timedelta(seconds=age_s)


def examine_orphans(lake: Lake, files: list[FileInfo]) -> Iterator[DoctorFinding]:
    """Report files that no version of the lake reads."""
    fix = "gradebook doctor --mend"
    paths = (address_of(lake, file.path) for file in files)
    findings = (DoctorFinding("orphans", NOTE, f"{path}: no version of the lake reads it", fix) for path in paths)
    yield from findings_or_ok(findings, "orphans", "each file in the tables' folders belongs to a version")


SERVER_TIMEOUT_S = 5.0
LEAST_FREE_BYTES = 2**30
OTHERS = stat.S_IRWXG | stat.S_IRWXO
NO_ROOM_BYTES = 64 * 2**20
SHOWN_PACKAGES = ("gradebook", "duckdb", "duckdb-extension-ducklake", "prefect", "pyarrow")
_EXTENSIONS = """
select extension_name, extension_version from duckdb_extensions()
where loaded and extension_name in ('ducklake', 'sqlite_scanner', 'postgres_scanner', 'httpfs') order by extension_name
"""
_FORMAT = f"select value from {CATALOG}.ducklake_metadata where key = 'version' and scope is null"


def examine_versions() -> Iterator[DoctorFinding]:
    """Check that each required package is installed in a supported version."""
    requirements = [Requirement(text) for text in metadata.requires("gradebook") or ()]
    needed = [
        requirement
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]
    faults = (fault for requirement in needed if (fault := _requirement_fault(requirement)))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in SHOWN_PACKAGES)
    fix = "pip install --force-reinstall gradebook"
    findings = (DoctorFinding("versions", PROBLEM, fault, fix) for fault in faults)
    yield from findings_or_ok(findings, "versions", f"python {platform.python_version()}, {versions}")


def _requirement_fault(requirement: Requirement) -> str | None:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"found no {requirement.name}, expected {requirement}"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"found {requirement.name} {version}, expected {requirement}"


def examine_catalog(connection: duckdb.DuckDBPyConnection, lake: Lake) -> DoctorFinding:
    """Format of the catalog, and versions of the extensions that read it."""
    extensions = ", ".join(f"{name} {version}" for name, version in connection.execute(_EXTENSIONS).fetchall())
    formats = connection.execute(_FORMAT).fetchall()
    format_note = f", format {formats[0][0]}" if formats else ""
    return DoctorFinding("catalog", OK, f"{lake.name} opens{format_note}; {extensions}")


def examine_disk(lake: Lake) -> Iterator[DoctorFinding]:
    """Check that the lake's folder exists, can be written and has free space."""
    if not lake.root.is_dir():
        summary = f"{lake.root}: found no such folder, expected the lake's folder with its journals and working folders"
        yield DoctorFinding("disk", PROBLEM, summary, "mount it, or name the right one with --data or GRADEBOOK_WORK")
        return
    if not os.access(lake.root, os.W_OK):
        fix = f"`chmod u+w {lake.root}`, or run as its owner; reading works as it is"
        yield DoctorFinding(
            "disk", NOTE, f"{lake.root} can't be written, so no run can be evaluated into this lake", fix
        )
    free_bytes = shutil.disk_usage(lake.root).free
    summary = f"{free_bytes / 2**30:,.1f} GiB free at {lake.root}"
    if free_bytes >= LEAST_FREE_BYTES:
        yield DoctorFinding("disk", OK, summary)
        return
    severity = PROBLEM if free_bytes < NO_ROOM_BYTES else NOTE
    yield DoctorFinding(
        "disk", severity, f"{summary}, expected at least 1 GiB", "free some space; a run that stopped can be resumed"
    )


def examine_access(lake: Lake) -> Iterator[DoctorFinding]:
    """Check that the lake's folders and Prefect's database are closed to other users of the machine."""
    private = lake.root if lake.root.is_dir() and not _mode(lake.root) & OTHERS else None
    folders = [folder for folder in dict.fromkeys(folders_of(lake)) if folder.is_dir() and _mode(folder) & OTHERS]
    open_folders = [folder for folder in folders if private is None or not folder.is_relative_to(private)]
    home = prefect_home()
    database = home / "prefect.db"
    is_there = os.path.isfile(database)  # noqa: PTH113 - Path raises where the folder may not be read
    if is_there and _mode(home) & OTHERS and _mode(database) & OTHERS:
        open_folders.append(database)
    findings = (
        DoctorFinding(
            "access",
            PROBLEM if _mode(path) & stat.S_IWOTH else NOTE,
            f"{path}: found mode {_mode(path):03o}, which other users of this machine may read, expected 700 or 600",
            f"`chmod go-rwx {path}`, unless it is shared on purpose",
        )
        for path in open_folders
    )
    yield from findings_or_ok(findings, "access", f"{lake.root} is closed to other users")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def examine_server() -> DoctorFinding:
    """Check that Prefect's server answers, if PREFECT_API_URL names one."""
    address = os.environ.get("PREFECT_API_URL")
    if not address:
        return DoctorFinding("prefect server", OK, "PREFECT_API_URL is not set: commands run here, without Prefect")
    public_address = without_password(address)
    try:
        # Any scheme is allowed: the address is the user's own.
        with urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=SERVER_TIMEOUT_S) as response:
            if response.status == 200:
                return DoctorFinding("prefect server", OK, f"{public_address} answers")
            reason = f"HTTP {response.status}"
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
    fix = "prefect server start, or unset PREFECT_API_URL"
    return DoctorFinding("prefect server", PROBLEM, f"PREFECT_API_URL: {public_address} does not answer: {reason}", fix)
