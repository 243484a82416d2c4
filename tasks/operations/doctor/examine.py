"""Examination of a lake and the machine, and the safe fixes of `--mend`."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
from pyarrow.fs import FileInfo

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.errors import LakeError, StorageUnavailable, UnfinishedError
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS, output_id, stored_output
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, upgrade_lake
from gradebook.tasks.lake.data_files import address_of, named_files
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.file_digests import stored_digests
from gradebook.tasks.lake.orphans import orphans, remove_orphans
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.schema import is_up_to_date, missing_parts
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.ledger.verify import verify_ledger
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, DoctorFinding, or_fine
from gradebook.tasks.operations.doctor.lake_files import (
    STORAGE_FIX,
    examine_files,
    examine_orphans,
    examine_small_files,
    latest_orphan,
    storage_fault,
)
from gradebook.tasks.operations.doctor.machine import (
    examine_access,
    examine_catalog,
    examine_disk,
    examine_server,
    examine_versions,
)
from gradebook.tasks.operations.doctor.unfinished_runs import (
    examine_journals,
    examine_running,
    examine_unreadable,
    examine_untidy,
    fail_stuck,
    lost_identity,
    runs_of,
    tidy_runs,
    untidy_runs,
)
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
    faults = (f"{run['run_id']}: {fault}" for run in runs for fault in _faults(run))
    found = f"{counted(len(runs), 'published run')}: rows and dollars add up"
    yield from or_fine((DoctorFinding("counts", PROBLEM, fault, _CHANGED) for fault in faults), "counts", found)


def examine_doubles(connection: duckdb.DuckDBPyConnection) -> Iterator[DoctorFinding]:
    """Check that each run and each judgment is stored once."""
    runs = (f"run {row['run_id']}: {row['row_count']} rows" for row in read_rows(connection, _PUBLISHED_TWICE))
    paid = (f"judgment {row['judgment_id']}: {row['row_count']} rows" for row in read_rows(connection, _PAID_TWICE))
    faults = (fault for found in (runs, paid) for fault in found)
    findings = (DoctorFinding("doubles", PROBLEM, f"{fault}, expected one", _CHANGED) for fault in faults)
    yield from or_fine(findings, "doubles", "each run and each judgment is stored once")


def _faults(run: dict[str, object]) -> Iterator[str]:
    counts = {name: value for name, value in run.items() if isinstance(value, int)}
    outputs, scores = counts.get("output_count", 0), counts["score_count"]
    if outputs != scores:
        yield f"found {counted(scores, 'scored output')}, expected {outputs:,}"
    if counts["verdict_count"] != counts["judged_count"] * counts["criterion_count"]:
        expected = f"{counts['criterion_count']:,} for each of {counted(counts['judged_count'], 'output')}"
        yield f"found {counted(counts['verdict_count'], 'verdict')}, expected {expected}"
    if counts["odd_count"]:
        yield f"found {counted(counts['odd_count'], 'verdict')} neither scored nor unscored"
    # A repeated row of the file counts twice as a row and once as an output: there may be more rows, never fewer.
    if "row_count" in counts and outputs + counts["refused_count"] > counts["row_count"]:
        yield (
            f"found {counted(outputs, 'output')} and {counted(counts['refused_count'], 'refused row')}, "
            f"expected at most the {counted(counts['row_count'], 'row')} of the input"
        )
    stated, paid = run["cost_usd"], run["paid_usd"]
    is_known = isinstance(stated, float) and isinstance(paid, float) and not counts["unpriced_count"]
    if is_known and abs(stated - paid) > 1e-9 * max(1.0, abs(paid)):  # type: ignore[operator, arg-type]
        yield f"found ${stated} in its row, expected ${paid}, the sum of its judgments"


def examine_outputs(connection: duckdb.DuckDBPyConnection, *, is_deep: bool) -> Iterator[DoctorFinding]:
    """Check that the ids of outputs match their content; is_deep: all outputs instead of a sample."""
    ((all_count,),) = connection.execute(_COUNT).fetchall()
    sample = "" if is_deep else f" using sample reservoir({SAMPLE_ROWS} rows) repeatable (8)"
    reader = connection.execute(f"select output_id, {', '.join(OUTPUT_COLUMNS)} from outputs{sample}").to_arrow_reader(
        BATCH_ROWS
    )
    ids = ((row["output_id"], output_id(stored_output(row))) for batch in reader for row in batch.to_pylist())
    wrong = (f"output {stored}: its content has the id {made}" for stored, made in ids if stored != made)
    checked = all_count if is_deep else min(SAMPLE_ROWS, all_count)
    found = f"{checked:,} of {counted(all_count, 'output')}: each id matches its content"
    yield from or_fine((DoctorFinding("outputs", PROBLEM, fault, _CHANGED) for fault in wrong), "outputs", found)


def examine_ledger(lake: Lake) -> Iterator[DoctorFinding]:
    """Check that the key of each judgment matches its request, and that each verdict has its judgment."""
    verification = verify_ledger(lake)
    for why, count in sorted(verification.not_recomputed.items()):
        yield DoctorFinding("ledger", NOTE, f"not checked: {count} {why}")
    if verification.finding_count:
        found = f"{counted(verification.finding_count, 'difference')} between judgments or verdicts and the ledger"
        yield DoctorFinding("ledger", PROBLEM, found, "gradebook ledger verify")
    else:
        judgments = counted(verification.judgment_count, "judgment")
        found = f"{judgments} and {counted(verification.verdict_count, 'verdict')} agree"
        yield from or_fine((), "ledger", found)


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
    findings = [*examine_versions(), *_of_lake(lake, is_deep=is_deep), *examine_disk(lake)]
    findings += [*examine_access(lake), examine_server()]
    return Examination(tuple(findings), mended)


def mend_lake(lake: Lake) -> tuple[str, ...]:
    """Apply the safe fixes; returns one sentence for each.

    Moves replies into the ledger, marks runs whose process is gone as failed, and deletes working files of published
    runs and files of no version. Raises `LakeError` if the lake can't be opened or written.
    """
    upgrade_lake(lake)
    with connect(lake):  # checks that the data folder is this catalog's
        pass
    with connect(lake, read_only=True) as connection:
        left = _leftovers(connection, lake)
    failed = fail_stuck(lake, left.running)
    tidied = tidy_runs(left.untidy)
    removed = remove_orphans(lake, left.orphans, latest_orphan(lake))
    aside: list[str] = []
    settled_count = settle_journals(lake, aside)
    done = [f"{counted(settled_count, 'reply', 'replies')} moved into the ledger"] if settled_count else []
    done += aside
    done += [f"{run_id}: marked as failed" for run_id in failed]
    done += [f"{run_id}: working files deleted" for run_id in tidied]
    return (*done, *(f"{address_of(lake, file.path)}: removed" for file in removed))


def _of_lake(lake: Lake, *, is_deep: bool) -> Iterator[DoctorFinding]:
    if lake.is_there and (fault := storage_fault(lake)) is not None:
        yield fault
        return
    try:
        with connect(lake, read_only=True) as connection:
            yield examine_catalog(connection, lake)
            is_whole = is_up_to_date(connection)
            yield _of_tables(connection, is_whole=is_whole)
            files = named_files(connection, lake)
            yield from examine_files(files, lake, stored_digests(connection), is_deep=is_deep)
            yield from examine_small_files(connection)
            if is_whole:
                yield from _of_rows(connection, lake, is_deep=is_deep)
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
    place = error.place if isinstance(error, LakeError) else ""
    is_of_bucket = lake.bucket is not None and place.startswith(lake.bucket.uri)
    if isinstance(error, StorageUnavailable) or place.startswith("--data") or is_of_bucket:
        return STORAGE_FIX
    return "restore the catalog from a backup, or start its server; the Parquet files are not affected"


def _of_tables(connection: duckdb.DuckDBPyConnection, *, is_whole: bool) -> DoctorFinding:
    if is_whole:
        return DoctorFinding("tables", OK, "all tables, columns and views exist")
    missing = missing_parts(connection)
    shown = ", ".join(missing[:MOST_PARTS_SHOWN]) or "the current text of its views"
    more = f" and {len(missing) - MOST_PARTS_SHOWN:,} more" if len(missing) > MOST_PARTS_SHOWN else ""
    found = f"made by an earlier gradebook: lacks {shown}{more}"
    return DoctorFinding("tables", PROBLEM, found, "`gradebook evaluate`, or `gradebook doctor --mend`")


def _of_rows(connection: duckdb.DuckDBPyConnection, lake: Lake, *, is_deep: bool) -> Iterator[DoctorFinding]:
    left = _leftovers(connection, lake)
    yield from examine_orphans(lake, left.orphans)
    yield from examine_running(lake, left.running)
    yield from examine_untidy(left.untidy)
    yield from lost_identity(lake)
    yield from examine_journals(lake)
    yield from examine_unreadable(lake)
    yield from examine_doubles(connection)
    yield from examine_counts(connection)
    yield from examine_outputs(connection, is_deep=is_deep)


def _leftovers(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Leftovers:
    unread = orphans(connection, lake, latest_orphan(lake))
    return Leftovers(runs_of(connection, "running"), untidy_runs(lake, runs_of(connection, "published")), unread)
