"""The examination of a lake: what is wrong with it, or with the machine, and how that is mended."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
from pyarrow.fs import FileInfo

from gradebook.rubrics.model.errors import LakeError, UnfinishedError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, upgrade_lake
from gradebook.tasks.lake.data_files import address_of, named_files, orphans, remove_orphans
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.schema import is_up_to_date, missing_parts
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.operations.doctor.bookkeeping import (
    examine_counts,
    examine_doubles,
    examine_ledger,
    examine_outputs,
)
from gradebook.tasks.operations.doctor.findings import OK, PROBLEM, Finding
from gradebook.tasks.operations.doctor.lake_files import (
    AS_IT_SAYS,
    examine_files,
    examine_orphans,
    examine_small_files,
    latest_orphan,
    storage_fault,
)
from gradebook.tasks.operations.doctor.machine import examine_catalog, examine_disk, examine_server, examine_versions
from gradebook.tasks.operations.doctor.unfinished_runs import (
    examine_journals,
    examine_running,
    examine_untidy,
    fail_stuck,
    lost_identity,
    runs_of,
    tidy_runs,
    untidy_runs,
)
from gradebook.tasks.workspace.folder import RunFolder

MOST_PARTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found. mended: what was done about it before, a sentence each."""

    findings: tuple[Finding, ...]
    mended: tuple[str, ...] = ()

    @property
    def problem_count(self) -> int:
        """How many findings are problems."""
        return sum(finding.severity == PROBLEM for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        return {
            "problem_count": self.problem_count,
            "findings": [asdict(finding) for finding in self.findings],
            "mended": list(self.mended),
        }


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What can be mended without harm, as it stood when the lake was read."""

    running: list[str]
    untidy: list[RunFolder]
    orphans: list[FileInfo]


def examine_lake(lake: Lake, *, is_deep: bool = False, mended: tuple[str, ...] = ()) -> Examination:
    """Look at a lake and the machine; nothing is written. Raises `NoLakeThere` where there is none.

    is_deep: every file is read, every id and key worked out again.
    """
    findings = [*examine_versions(), *_of_lake(lake, is_deep=is_deep), *examine_disk(lake), examine_server()]
    return Examination(tuple(findings), mended)


def mend_lake(lake: Lake) -> tuple[str, ...]:
    """Do what the findings call for and can harm nothing; returns a sentence for each thing done.

    Replies go into the ledger, runs whose process is gone are marked as failed, what published runs worked with and
    files that no version reads are removed. Raises `LakeError` where the lake can't be opened or written.
    """
    upgrade_lake(lake)
    with connect(lake, read_only=True) as connection:
        left = _leftovers(connection, lake)
    failed = fail_stuck(lake, left.running)
    tidied = tidy_runs(left.untidy)
    removed = remove_orphans(lake, left.orphans, latest_orphan(lake))
    settled_count = settle_journals(lake)  # last: a journal that does not read ends it
    done = [f"{settled_count:,} replies moved into the ledger"] if settled_count else []
    done += [f"{run_id}: marked as failed" for run_id in failed]
    done += [f"{run_id}: tidied up" for run_id in tidied]
    return (*done, *(f"{address_of(lake, file.path)}: removed" for file in removed))


def _of_lake(lake: Lake, *, is_deep: bool) -> Iterator[Finding]:
    if lake.is_there and (fault := storage_fault(lake)) is not None:
        yield fault
        return
    try:
        with connect(lake, read_only=True) as connection:
            yield examine_catalog(connection, lake)
            is_whole = is_up_to_date(connection)
            yield _of_tables(connection, is_whole=is_whole)
            files = named_files(connection, lake)
            yield from examine_files(files, lake, is_deep=is_deep)
            yield from examine_small_files(connection)
            if is_whole:
                yield from _of_rows(connection, lake, is_deep=is_deep)
    except NoLakeThere:
        raise
    except (LakeError, UnfinishedError) as error:
        yield Finding("catalog", PROBLEM, str(error), _mend_of(lake, str(error)))
        return
    except duckdb.Error as error:
        # A file that the catalog names and that is gone, or does not read, is named above.
        yield Finding("tables", PROBLEM, f"can't be read: {str(error).splitlines()[0]}", "see the findings on files")
        return
    if is_whole and is_deep:
        yield from examine_ledger(lake)


def _mend_of(lake: Lake, fault: str) -> str:
    if fault.startswith("--data") or (lake.bucket is not None and fault.startswith(lake.bucket.uri)):
        return AS_IT_SAYS
    return "restore the catalog from a backup, or start its server; the Parquet files are beside it, unharmed"


def _of_tables(connection: duckdb.DuckDBPyConnection, *, is_whole: bool) -> Finding:
    if is_whole:
        return Finding("tables", OK, "every table, column and view is there")
    missing = missing_parts(connection)
    shown = ", ".join(missing[:MOST_PARTS_SHOWN]) or "the present text of its views"
    more = f" and {len(missing) - MOST_PARTS_SHOWN:,} more" if len(missing) > MOST_PARTS_SHOWN else ""
    found = f"made by an earlier gradebook: lacks {shown}{more}"
    return Finding("tables", PROBLEM, found, "gradebook evaluate, or: gradebook doctor --mend")


def _of_rows(connection: duckdb.DuckDBPyConnection, lake: Lake, *, is_deep: bool) -> Iterator[Finding]:
    left = _leftovers(connection, lake)
    yield from examine_orphans(lake, left.orphans)
    yield from examine_running(lake, left.running)
    yield from examine_untidy(left.untidy)
    yield from lost_identity(lake)
    yield from examine_journals(lake)
    yield from examine_doubles(connection)
    yield from examine_counts(connection)
    yield from examine_outputs(connection, is_deep=is_deep)


def _leftovers(connection: duckdb.DuckDBPyConnection, lake: Lake) -> Leftovers:
    unread = orphans(connection, lake, latest_orphan(lake))
    return Leftovers(runs_of(connection, "running"), untidy_runs(lake, runs_of(connection, "published")), unread)
