"""A lake at a glance: runs at work, runs that stand still, the last run of each rubric, failures, sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gradebook.tasks.lake import Lake, connect
from gradebook.tasks.lake_tables import CATALOG
from gradebook.tasks.requirements import Row, read_rows, unmet_requirements
from gradebook.tasks.unpublished_runs import UnpublishedRun, unpublished_runs

ALARMING = timedelta(days=1)

_LAST_PUBLISHED = """
select run_id, rubric_id, rubric_version, judge, dataset, trigger, created_at, finished_at, version, output_count,
    cost_usd
from runs where status = 'published'
qualify row_number() over (partition by rubric_id order by version desc) = 1
order by version desc
"""
# A failure that was made good is none: the same outputs, rubric and judge were published after it. The lake gives rows
# their ids as it takes them in: a clock that was set back does not change what came after what.
_FAILURES = """
select run_id, rubric_id, rubric_version, judge, dataset, trigger, created_at, finished_at, reason
from runs as failed
where status = 'failed' and coalesce(finished_at, created_at) >= ? and not exists (
    from runs as mended
    where mended.status = 'published' and mended.rowid > failed.rowid
        and mended.dataset_digest = failed.dataset_digest and mended.rubric_digest = failed.rubric_digest
        and mended.judge is not distinct from failed.judge
)
order by failed.rowid desc
"""
_UNDER_WAY = "select run_id, status, rubric_id, rubric_version, dataset, judge from runs where status <> 'published'"
_PUBLISHED = "select run_id from runs where status = 'published'"
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
    """What `gradebook status` shows. of_runs: rubric, dataset and judge of the unpublished runs, by id."""

    now: datetime
    lake: str
    unpublished: tuple[UnpublishedRun, ...]
    of_runs: Mapping[str, Row]
    last_published: tuple[Row, ...]
    failures: tuple[Row, ...]
    sizes: Row

    @property
    def at_work(self) -> tuple[UnpublishedRun, ...]:
        """The runs that a process works on."""
        return tuple(run for run in self.unpublished if run.is_at_work)

    @property
    def left(self) -> tuple[UnpublishedRun, ...]:
        """The runs that were neither finished nor given up as failed: their process is gone."""
        failed = {name for name, row in self.of_runs.items() if row["status"] == "failed"}
        return tuple(run for run in self.unpublished if not run.is_at_work and run.run_id not in failed)

    @property
    def is_alarming(self) -> bool:
        """Whether a run of the last day failed, or its process is gone, and it was not made good since."""
        since = self.now - ALARMING
        failed = any((row["finished_at"] or row["created_at"]) >= since for row in self.failures)
        return failed or any(run.quiet_s <= ALARMING.total_seconds() for run in self.left)

    def go_on(self, run_id: str) -> str | None:
        """The command that goes on with a failed run; None where its folder is gone."""
        return next((run.go_on for run in self.unpublished if run.run_id == run_id), None)

    def as_json(self) -> dict[str, Any]:
        """All of it, as one object."""
        of_run = {name: {key: row[key] for key in row if key != "status"} for name, row in self.of_runs.items()}
        runs = {name: [of_run.get(run.run_id, {}) | run.as_json() for run in getattr(self, name)] for name in _KINDS}
        failures = [dict(row) | {"go_on": self.go_on(row["run_id"])} for row in self.failures]
        return {
            "at": self.now,
            "lake": self.lake,
            "is_alarming": self.is_alarming,
            **runs,
            "last_published": [dict(row) for row in self.last_published],
            "failures": failures,
            "sizes": dict(self.sizes),
        }


_KINDS = ("at_work", "left")


def read_status(lake: Lake, now: datetime, days: int, lake_words: tuple[str, ...] = ()) -> Status:
    """Read a lake and the folders of its runs. days: how far back failures go. lake_words: as for `going_on`.

    Raises `LakeError` where there is no lake.
    """
    unpublished = unpublished_runs(lake.root, now, lake_words)
    with connect(lake, read_only=True) as connection:
        last = [dict(row) for row in read_rows(connection, _LAST_PUBLISHED)]
        for row in last:
            _has_requirement, unmet = unmet_requirements(connection, row["run_id"])
            row |= {"is_met": not unmet, "unmet": list(unmet)}
        failures = read_rows(connection, _FAILURES, now - timedelta(days=days))
        under_way = read_rows(connection, _UNDER_WAY)
        (versions,), (sizes,) = read_rows(connection, _VERSIONS), read_rows(connection, _DATA)
        published = {row["run_id"] for row in read_rows(connection, _PUBLISHED)}
    return Status(
        now,
        lake.name,
        # One that was killed between its publication and its report is done, but for the page.
        tuple(run for run in unpublished if run.is_at_work or run.run_id not in published),
        {row["run_id"]: {key: row[key] for key in row if key != "run_id"} for row in under_way},
        tuple(last),
        tuple(failures),
        {**versions, **sizes, "catalog_bytes": _catalog_bytes(lake)},
    )


def _catalog_bytes(lake: Lake) -> int | None:
    """The size of the catalog's file; None where it is a server's."""
    return Path(lake.address).stat().st_size if lake.catalog == "sqlite" else None
