"""Runs that did not come to their end: those whose process is gone, what they left, and replies not in the ledger."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.tasks.judging.replies.journal import is_journal_held, read_journal
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.ledger.ledger import BATCH_ROWS
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, Finding, or_fine
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import RunClaim, is_running, lock_folder

MEND = "gradebook doctor --mend"
ENDED = "its process ended before the run did, by a kill or with its machine; marked by gradebook doctor"
_RUNS = "select run_id from runs where status = $status order by run_id"
_FAIL = """
update runs set status = 'failed', reason = $reason, finished_at = $now where run_id = $run and status = 'running'
"""


def runs_of(connection: duckdb.DuckDBPyConnection, status: str) -> list[str]:
    """The ids of the runs with a status."""
    return [str(run_id) for (run_id,) in connection.execute(_RUNS, {"status": status}).fetchall()]


def run_folder(lake: Lake, run_id: str) -> RunFolder:
    """Where a run of the lake works."""
    return RunFolder(lake.root / "runs" / run_id)


def examine_running(lake: Lake, running: list[str]) -> Iterator[Finding]:
    """Runs that the lake holds for running: at work, ended without a word, or of a folder that is not here."""
    for run_id in running:
        folder = run_folder(lake, run_id)
        if is_running(folder):
            yield Finding("running", OK, f"{run_id}: a process is at work on it")
        elif folder.path.exists():
            found = f"{run_id}: its process is gone; the command that began it goes on with it"
            yield Finding("running", PROBLEM, found, f"the same command again, or to give it up: {MEND}")
        else:
            found = f"{run_id}: {folder.path} is not there: it works elsewhere, or somebody removed its folder"
            yield Finding("running", NOTE, found)
    if not running:
        yield Finding("running", OK, "no run waits for its end")


def fail_stuck(lake: Lake, running: list[str]) -> list[str]:
    """Mark those whose process is gone as failed; what they asked stays paid. Returns their ids.

    The same command still goes on with each of them.
    """
    failed = []
    for run_id in running:
        folder = run_folder(lake, run_id)
        if not folder.path.exists():
            continue
        if (claim := _free_folder(folder)) is None:
            continue
        with claim:
            _fail(lake, run_id)
            failed.append(run_id)
    return failed


def _free_folder(folder: RunFolder) -> RunClaim | None:
    """A run's folder, held by this process; None where the run's own process is at it again."""
    try:
        return lock_folder(folder)
    except LakeError:  # it can't be written
        raise
    except InputError:
        return None


def _fail(lake: Lake, run_id: str) -> None:
    values: dict[str, object] = {"run": run_id, "reason": ENDED, "now": datetime.now(UTC)}
    commit(lake, f"run {run_id} failed", lambda connection, _version: _mark(connection, values))


def _mark(connection: duckdb.DuckDBPyConnection, values: dict[str, object]) -> None:
    connection.execute(_FAIL, values)


def untidy_runs(lake: Lake, published: list[str]) -> list[RunFolder]:
    """The folders of published runs that still hold what the runs worked with, and no process."""
    folders = (run_folder(lake, run_id) for run_id in published)
    return [folder for folder in folders if folder.is_untidy and not is_running(folder)]


def examine_untidy(folders: list[RunFolder]) -> Iterator[Finding]:
    """Published runs that were killed before they had tidied up."""
    found = "it is published, and its folder still holds what it worked with"
    findings = (Finding("folders", NOTE, f"{folder.run_id}: {found}", MEND) for folder in folders)
    yield from or_fine(findings, "folders", "no published run left what it worked with")


def tidy_runs(folders: list[RunFolder]) -> list[str]:
    """Remove what they worked with. Returns the ids of those that are tidy now."""
    tidied = []
    for folder in folders:
        if (claim := _free_folder(folder)) is None:
            continue
        with claim:
            folder.tidy()
            tidied.append(folder.run_id)
    return tidied


def examine_journals(lake: Lake) -> Iterator[Finding]:
    """Replies that were paid for and are not in the ledger, where no process holds them."""
    paths = sorted(lake.journal_folder.glob("*.jsonl"))
    left = (path for path in paths if not is_journal_held(path))
    yield from or_fine(map(_examine_journal, left), "journals", "each reply that was paid for is in the ledger")


def _examine_journal(path: Path) -> Finding:
    try:
        costs = [cost for rows in read_journal(path, BATCH_ROWS) for cost in rows.column("cost_usd").to_pylist()]
    except (LakeError, OSError) as error:
        mend = "mend or remove the line; until then nothing of this file reaches the ledger"
        return Finding("journals", PROBLEM, str(error), mend)
    known = sum(cost for cost in costs if cost is not None)
    unknown_count = sum(cost is None for cost in costs)
    price = f"${known:.4f}" + (f" and {unknown_count:,} of unknown price" if unknown_count else "")
    found = f"{path}: {len(costs):,} replies ({price}) that are not in the ledger yet"
    return Finding("journals", NOTE, found, f"the next evaluation, or: {MEND}")


def lost_identity(lake: Lake) -> Iterator[Finding]:
    """Folders of runs that can't be told apart, since their run.json does not read."""
    for file in sorted((lake.root / "runs").glob("*/run.json")):
        try:
            json.loads(file.read_text(encoding="utf-8"))["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            mend = f"remove the folder {file.parent}; what it asked stays in the ledger"
            yield Finding("folders", PROBLEM, f"{file}: can't be read ({type(error).__name__})", mend)
