"""Runs that are not published: what their folders tell of how far they are, and whether a process is at them."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from gradebook.tasks.held_folders import is_at_work
from gradebook.tasks.resuming import going_on, read_kept
from gradebook.tasks.workspace import RunFolder


@dataclass(frozen=True, slots=True)
class UnpublishedRun:
    """How far a run is. is_at_work: a process holds its folder; else `go_on` says what goes on with it.

    done_rate: of the verdicts, in 0..1; None before there is a plan. judged_count: requests that came back. cost_usd:
    what they cost, None where the judge has no price. Ages in seconds; quiet_s: since the folder last changed.
    """

    run_id: str
    is_at_work: bool
    stage: str
    done_rate: float | None
    judged_count: int | None
    planned_count: int | None
    cost_usd: float | None
    planned_usd: float | None
    begun_at: datetime
    age_s: float
    quiet_s: float
    trigger: str | None
    go_on: str

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def unpublished_runs(root: Path, now: datetime, lake_words: tuple[str, ...]) -> list[UnpublishedRun]:
    """The unpublished runs of a lake's folder, the newest first. lake_words: as for `going_on`."""
    folders = [RunFolder(path) for path in (root / "runs").glob("*") if path.is_dir()]
    begun = [(folder, _begun_at(folder)) for folder in folders if not folder.published_file.exists()]
    runs = [_read(folder, begun_at, now, lake_words) for folder, begun_at in begun if begun_at is not None]
    return sorted(runs, key=lambda run: run.begun_at, reverse=True)


def _begun_at(folder: RunFolder) -> datetime | None:
    """When a run was begun; None where the folder is none of a run."""
    told = read_kept(folder.identity_file).get("created_at")
    try:
        begun_at = datetime.fromisoformat(str(told))
    except ValueError:
        return None
    return begun_at if begun_at.tzinfo else begun_at.replace(tzinfo=UTC)


def _read(folder: RunFolder, begun_at: datetime, now: datetime, lake_words: tuple[str, ...]) -> UnpublishedRun:
    planned, (judged_count, cost_usd) = read_kept(folder.plan_summary_file), _spent(folder)
    timings = list(_timings(folder))
    return UnpublishedRun(
        run_id=folder.run_id,
        is_at_work=is_at_work(folder),
        stage=_stage(folder, {timing["stage"] for timing in timings}),
        done_rate=_done_rate(timings, planned.get("verdict_count")),
        judged_count=judged_count,
        planned_count=planned.get("request_count"),
        cost_usd=cost_usd,
        planned_usd=planned.get("cost_usd"),
        begun_at=begun_at,
        age_s=max(0.0, (now - begun_at).total_seconds()),
        quiet_s=max(0.0, now.timestamp() - _last_change(folder)),
        trigger=read_kept(folder.request_file).get("trigger"),
        go_on=going_on(folder, lake_words),
    )


def _timings(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """The pieces of work that are done; a line that is being written is left out."""
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
    """The stage that is under way: the first of which nothing that follows is done."""
    if "aggregate" in done:
        return "publish"
    if any((folder.path / "marts").glob("*.parquet")):
        return "aggregate"
    if "plan" in done:
        return "score"
    return "plan" if "ingest" in done else "ingest"


def _done_rate(timings: list[dict[str, Any]], verdict_count: int | None) -> float | None:
    """The share of the verdicts that are there; a piece that was scored again counts once more, up to all."""
    if not verdict_count:
        return None
    done_count = sum(int(timing["row_count"]) for timing in timings if timing["stage"] == "score")
    return min(1.0, done_count / verdict_count)


def _spent(folder: RunFolder) -> tuple[int | None, float | None]:
    """How many requests came back, and what all cost: one that is out counts at its worst case."""
    settled, costs_usd = set(), {}
    try:
        *lines, _torn = folder.budget_file.read_bytes().split(b"\n")
    except OSError:
        return None, None
    for line in lines:
        try:
            note = orjson.loads(line)
            costs_usd[note["ticket"]] = float(note["cost_usd"] if "cost_usd" in note else note["worst_usd"])
            settled |= {note["ticket"]} if "cost_usd" in note else set()
        except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
            continue
    return len(settled), math.fsum(costs_usd.values())


def _last_change(folder: RunFolder) -> float:
    """When a file of the folder's own was last written to, as a time stamp."""
    times = []
    for path in (folder.path, *folder.path.glob("*")):
        try:
            times.append(path.stat().st_mtime)
        except FileNotFoundError:
            continue
    return max(times, default=0.0)
