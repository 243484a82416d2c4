"""Unfinished runs: runs whose process is gone, their working files, and replies that are not in the ledger."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.rubrics.text.wording import counted, price_words
from gradebook.tasks.judging.batches.state import has_open_batches
from gradebook.tasks.judging.budget import read_budget
from gradebook.tasks.judging.replies.journal import is_journal_held, read_journal
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.ledger.ledger import BATCH_ROWS, BROKEN_SUFFIX, broken_journals
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, DoctorFinding, findings_or_ok
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import RunClaim, has_lost_identity, is_running, lock_folder
from gradebook.tasks.workspace.repair import unreadable_files

MEND = "gradebook doctor --mend"
ENDED = "the process died before the run finished (killed, or the machine stopped); marked by gradebook doctor"
_RUNS = "select run_id from runs where status = $status order by run_id"
_FAIL = """
update runs set status = 'failed', reason = $reason, finished_at = $now where run_id = $run and status = 'running'
"""


def runs_of(connection: duckdb.DuckDBPyConnection, status: str) -> list[str]:
    """Ids of the runs with a status."""
    return [str(run_id) for (run_id,) in connection.execute(_RUNS, {"status": status}).fetchall()]


def examine_running(lake: Lake, running: list[str]) -> Iterator[DoctorFinding]:
    """Check runs of status `running`: in progress, without a process, or without a folder on this machine."""
    for run_id in running:
        folder = RunFolder.below(lake.root, run_id)
        if is_running(folder):
            yield DoctorFinding("running", OK, f"{run_id}: in progress")
        elif folder.path.exists():
            summary = f"{run_id}: its process is gone; the command that started it can resume it"
            yield DoctorFinding(
                "running", PROBLEM, summary, f"run the same command again, or mark the run as failed: `{MEND}`"
            )
        else:
            summary = f"{run_id}: no {folder.path}: in progress on another machine, or the folder was removed"
            yield DoctorFinding("running", NOTE, summary)
    if not running:
        yield DoctorFinding("running", OK, "no run is unfinished")


def mark_dead_runs_failed(lake: Lake, running: list[str]) -> list[str]:
    """Mark runs whose process is gone as failed; returns their ids. Paid replies stay, and the runs can be resumed."""
    failed_ids = []
    for run_id in running:
        folder = RunFolder.below(lake.root, run_id)
        if not folder.path.exists():
            continue
        if (claim := _free_folder(folder)) is None:
            continue
        with claim:
            _fail(lake, run_id)
            failed_ids.append(run_id)
    return failed_ids


def _free_folder(folder: RunFolder) -> RunClaim | None:
    """Lock a run's folder; returns None if the run's own process has locked it again."""
    try:
        return lock_folder(folder)
    except LakeError:  # the folder can't be written
        raise
    except InputError:
        return None


def _fail(lake: Lake, run_id: str) -> None:
    values: dict[str, object] = {"run": run_id, "reason": ENDED, "now": datetime.now(UTC)}
    commit(lake, f"run {run_id} failed", lambda connection, _version: _mark(connection, values))


def _mark(connection: duckdb.DuckDBPyConnection, values: dict[str, object]) -> None:
    connection.execute(_FAIL, values)


def untidy_runs(lake: Lake, published: list[str]) -> list[RunFolder]:
    """Folders of published runs that still contain working files and have no process."""
    folders = (RunFolder.below(lake.root, run_id) for run_id in published)
    return [folder for folder in folders if folder.is_untidy and not is_running(folder)]


def examine_untidy(folders: list[RunFolder]) -> Iterator[DoctorFinding]:
    """Report published runs that were killed before they deleted their working files."""
    summary = "the run is published, but its folder still contains working files"
    findings = (DoctorFinding("folders", NOTE, f"{folder.run_id}: {summary}", MEND) for folder in folders)
    yield from findings_or_ok(findings, "folders", "no published run left working files")


def tidy_runs(folders: list[RunFolder]) -> list[str]:
    """Delete working files of runs; returns the ids of the runs that were not locked."""
    tidied = []
    for folder in folders:
        if (claim := _free_folder(folder)) is None:
            continue
        with claim:
            folder.tidy()
            tidied.append(folder.run_id)
    return tidied


def examine_journals(lake: Lake) -> Iterator[DoctorFinding]:
    """Report paid replies that are not in the ledger and that no process is writing."""
    paths = sorted(lake.journal_folder.glob("*.jsonl"))
    unsettled = (path for path in paths if not is_journal_held(path))
    findings = (*map(_examine_journal, unsettled), *map(_examine_broken, broken_journals(lake)))
    yield from findings_or_ok(findings, "journals", "each paid reply is in the ledger")


def _examine_journal(path: Path) -> DoctorFinding:
    try:
        costs = [cost for rows in read_journal(path, BATCH_ROWS) for cost in rows.column("cost_usd").to_pylist()]
    except (LakeError, OSError) as error:
        fix = f"the next evaluation sets such lines aside and continues, or: {MEND}"
        return DoctorFinding("journals", PROBLEM, str(error), fix)
    known_usd = sum(cost for cost in costs if cost is not None)
    unknown_count = sum(cost is None for cost in costs)
    price = price_words(known_usd) + (f" and {unknown_count:,} of unknown price" if unknown_count else "")
    summary = f"{path}: {counted(len(costs), 'reply', 'replies')} ({price}) not in the ledger yet"
    return DoctorFinding("journals", NOTE, summary, f"the next evaluation, or: {MEND}")


def _examine_broken(path: Path) -> DoctorFinding:
    count = path.read_bytes().count(b"\n")
    summary = f"{path}: {counted(count, 'line')} of a journal that can't be read; their replies are not in the ledger"
    fix = f"repair the lines and rename the file to {path.name.removesuffix(BROKEN_SUFFIX)}, or remove it"
    return DoctorFinding("journals", PROBLEM, summary, fix)


def examine_unreadable(lake: Lake) -> Iterator[DoctorFinding]:
    """Report unreadable files of unpublished runs: some stop a resumed run, others are rewritten by it."""
    for path in sorted((lake.root / "runs").glob("*/")):
        folder = RunFolder(path)
        if folder.published_file.exists() or is_running(folder):
            continue
        again = "the same command begins a new run, and what was asked stays in the ledger"
        for fault in _broken_records(folder):
            yield DoctorFinding("folders", PROBLEM, fault, f"repair the line, or remove {path}: {again}")
        for file in unreadable_files(folder):
            yield DoctorFinding("folders", NOTE, f"{file}: can't be read", "the same command writes it anew")


def _broken_records(folder: RunFolder) -> Iterator[str]:
    """Faults of a run's records of money, which are never guessed."""
    try:
        if folder.budget_file.exists():
            read_budget(folder.budget_file)
        has_open_batches(folder.batch_folder)
    except (LakeError, OSError) as fault:
        yield str(fault)


def examine_identities(lake: Lake) -> Iterator[DoctorFinding]:
    """Report folders whose run.json is damaged, so that their run is unknown."""
    for file in sorted((lake.root / "runs").glob("*/run.json")):
        if has_lost_identity(RunFolder(file.parent)):
            mend = f"remove the folder {file.parent}; its paid replies stay in the ledger"
            yield DoctorFinding("folders", PROBLEM, f"{file}: is damaged", mend)
