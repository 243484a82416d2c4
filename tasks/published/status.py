"""Status of a lake: unpublished runs and their progress, published and failed runs, and sizes."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import orjson

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.schema import CATALOG
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import stated_outcome
from gradebook.tasks.runs.resume_command import command_to_resume, read_json_or_empty, with_larger_budget
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import is_running


@dataclass(frozen=True, slots=True)
class UnpublishedRun:
    """Progress of a run. is_at_work: whether a process has locked its folder; go_on: the command that resumes it.

    done_rate: share of verdicts that are done, 0..1; None before planning. judged_count: answered requests; cost_usd:
    their cost, None if the judge has no price; possible_usd: highest cost of the requests without an answer. Ages in
    seconds; quiet_s: since the last change of the folder.
    """

    run_id: str
    is_at_work: bool
    stage: str
    done_rate: float | None
    judged_count: int | None
    planned_count: int | None
    cost_usd: float | None
    possible_usd: float | None
    planned_usd: float | None
    begun_at: datetime
    age_s: float
    quiet_s: float
    trigger: str | None
    go_on: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def unpublished_runs(lake: Lake, now: datetime) -> list[UnpublishedRun]:
    """Unpublished runs of a lake's folder, newest first."""
    folders = [RunFolder(path) for path in (lake.root / "runs").glob("*") if path.is_dir()]
    begun = [(folder, _begun_at(folder)) for folder in folders if not folder.published_file.exists()]
    runs = [_read_run(folder, begun_at, now, lake) for folder, begun_at in begun if begun_at is not None]
    return sorted(runs, key=lambda run: run.begun_at, reverse=True)


def _begun_at(folder: RunFolder) -> datetime | None:
    """Start of a run; None if the folder is not a run's."""
    created_at = read_json_or_empty(folder.identity_file).get("created_at")
    try:
        begun_at = datetime.fromisoformat(str(created_at))
    except ValueError:
        return None
    return begun_at if begun_at.tzinfo else begun_at.replace(tzinfo=UTC)


def _read_run(folder: RunFolder, begun_at: datetime, now: datetime, lake: Lake) -> UnpublishedRun:
    planned, (judged_count, cost_usd, possible_usd) = (
        read_json_or_empty(folder.plan_summary_file),
        _read_spending(folder),
    )
    timings = list(_timings(folder))
    return UnpublishedRun(
        run_id=folder.run_id,
        is_at_work=is_running(folder),
        stage=_stage(folder, {timing["stage"] for timing in timings}),
        done_rate=_done_rate(timings, planned.get("verdict_count")),
        judged_count=judged_count,
        planned_count=planned.get("request_count"),
        cost_usd=cost_usd,
        possible_usd=possible_usd,
        planned_usd=planned.get("cost_usd"),
        begun_at=begun_at,
        age_s=max(0.0, (now - begun_at).total_seconds()),
        quiet_s=max(0.0, now.timestamp() - _last_change(folder)),
        trigger=read_json_or_empty(folder.request_file).get("trigger"),
        go_on=command_to_resume(folder, lake.words(is_absolute=True)),
    )


def _timings(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Finished pieces of work; incomplete lines are skipped."""
    try:
        text = folder.timings_file.read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _stage(folder: RunFolder, done: set[str]) -> str:
    """Current stage. done: stages with at least one finished piece of work."""
    if "aggregate" in done:
        return "publish"
    if any((folder.path / "marts").glob("*.parquet")):
        return "aggregate"
    if "plan" in done:
        return "score"
    return "plan" if "ingest" in done else "ingest"


def _done_rate(timings: list[dict[str, Any]], verdict_count: int | None) -> float | None:
    """Share of verdicts that are done, at most 1: work that was repeated counts twice."""
    if not verdict_count:
        return None
    done_count = sum(int(timing["row_count"]) for timing in timings if timing["stage"] == "score")
    return min(1.0, done_count / verdict_count)


def _read_spending(folder: RunFolder) -> tuple[int | None, float | None, float | None]:
    """Number of answered requests, their cost, and the highest cost of the requests without an answer."""
    settled_usd: dict[int, float] = {}
    reserved_usd: dict[int, float] = {}
    try:
        *lines, _torn = folder.budget_file.read_bytes().split(b"\n")
    except OSError:
        return None, None, None
    for line in lines:
        try:
            note = orjson.loads(line)
            usd = settled_usd if "cost_usd" in note else reserved_usd
            usd[note["ticket"]] = float(note["cost_usd"] if "cost_usd" in note else note["worst_usd"])
        except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
            continue
    open_usd = (usd for ticket, usd in reserved_usd.items() if ticket not in settled_usd)
    return len(settled_usd), math.fsum(settled_usd.values()), math.fsum(open_usd)


def _last_change(folder: RunFolder) -> float:
    """Latest modification time of the folder's files, as a Unix timestamp."""
    times = []
    for path in (folder.path, *folder.path.glob("*")):
        try:
            times.append(path.stat().st_mtime)
        except FileNotFoundError:
            continue
    return max(times, default=0.0)


ALARMING = timedelta(days=1)
_OF_RUNS = """
select run_id, status, rubric_id, rubric_version, dataset, judge from runs where run_id in (select unnest($run_ids))
"""
_VERSIONS = """
select count(*) as version_count, max(snapshot_id) as version, max(snapshot_time) as made_at
from ducklake_snapshots('lake')
"""
_DATA = f"""
select coalesce(sum(file_size_bytes), 0)::bigint as data_bytes, count(*) as file_count
from {CATALOG}.ducklake_data_file where end_snapshot is null
"""


@dataclass(frozen=True, slots=True)
class Status:
    """Status of a lake. of_runs: rubric, dataset and judge of the unpublished runs, by id."""

    now: datetime
    lake: str
    unpublished: tuple[UnpublishedRun, ...]
    of_runs: Mapping[str, Row]
    last_published: tuple[Row, ...]
    failures: tuple[Row, ...]
    sizes: Row
    judges: tuple[Row, ...] = ()  # state of each judge on its anchors, by criterion

    @property
    def at_work(self) -> tuple[UnpublishedRun, ...]:
        """Runs in progress."""
        return tuple(run for run in self.unpublished if run.is_at_work)

    @property
    def interrupted(self) -> tuple[UnpublishedRun, ...]:
        """Interrupted runs: their process is gone, and they are not marked as failed."""
        failed_ids = {name for name, row in self.of_runs.items() if row["status"] == "failed"}
        return tuple(run for run in self.unpublished if not run.is_at_work and run.run_id not in failed_ids)

    @property
    def is_alarming(self) -> bool:
        """Whether a run of the last day failed or was interrupted, and no later run replaced it, or a judge
        changed.
        """
        since = self.now - ALARMING
        has_failed = bool(self.drifted) or any(
            (row["finished_at"] or row["created_at"]) >= since for row in self.failures
        )
        return has_failed or any(run.quiet_s <= ALARMING.total_seconds() for run in self.interrupted)

    @property
    def drifted(self) -> tuple[Row, ...]:
        """Criteria on which a judge changed on the last day."""
        since = (self.now - ALARMING).date()
        return tuple(row for row in self.judges if row["state"] == "drifted" and row["night"] >= since)

    def go_on(self, failure: Row) -> str | None:
        """Command that resumes a failed run, as `with_larger_budget`; None if its folder is gone."""
        go_on = next((run.go_on for run in self.unpublished if run.run_id == failure["run_id"]), None)
        return None if go_on is None else with_larger_budget(go_on, failure["reason"] or "")

    def as_json(self) -> dict[str, Any]:
        """JSON object printed by `--json`."""
        of_run = {name: {key: row[key] for key in row if key != "status"} for name, row in self.of_runs.items()}
        shown = {
            kind: [of_run.get(run.run_id, {}) | run.as_json() for run in runs]
            for kind, runs in (("at_work", self.at_work), ("left", self.interrupted))
        }
        failures = [dict(row) | {"go_on": self.go_on(row)} for row in self.failures]
        return {
            "at": self.now,
            "lake": self.lake,
            "is_alarming": self.is_alarming,
            **shown,
            "last_published": [dict(row) for row in self.last_published],
            "failures": failures,
            "sizes": dict(self.sizes),
            "judges": [dict(row) for row in self.judges],
        }


def read_status(lake: Lake, now: datetime, days: int) -> Status:
    """Read the status of a lake and its run folders. days: age limit of failures.

    Raises `LakeError` if there is no lake.
    """
    unpublished = unpublished_runs(lake, now)
    with connect(lake, read_only=True) as connection:
        last_runs = [dict(row) for row in read_rows(connection, query("published/last_runs"))]
        for row in last_runs:
            outcome = stated_outcome(connection, lake, row["run_id"])
            row |= {
                "has_requirement": outcome.has_requirement,
                "is_met": not outcome.unmet,
                "unmet": list(outcome.unmet),
            }
        failures = read_rows(connection, query("published/failed_runs"), since=now - timedelta(days=days))
        of_runs = read_rows(connection, _OF_RUNS, run_ids=[run.run_id for run in unpublished])
        (versions,), (sizes,) = read_rows(connection, _VERSIONS), read_rows(connection, _DATA)
        judges: tuple[Row, ...] = ()
        with suppress(duckdb.CatalogException):  # a lake of an earlier gradebook
            judges = read_rows(connection, query("published/judge_states"), judge=None, until=None)
    published = {row["run_id"] for row in of_runs if row["status"] == "published"}
    return Status(
        now,
        lake.name,
        # A run that was killed between publication and report counts as published.
        tuple(run for run in unpublished if run.is_at_work or run.run_id not in published),
        {row["run_id"]: {key: row[key] for key in row if key != "run_id"} for row in of_runs},
        tuple(last_runs),
        tuple(failures),
        {**versions, **sizes, "catalog_bytes": _catalog_bytes(lake)},
        judges,
    )


def _catalog_bytes(lake: Lake) -> int | None:
    """Size of the catalog's file; None for a server."""
    return Path(lake.address).stat().st_size if lake.catalog == "sqlite" else None
