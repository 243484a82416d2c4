"""Rating session on disk: outputs to rate, sheets of raters, and ratings that are not in the lake yet.

One SQLite file for each run and queue. A rating is on disk before it is acknowledged, and moves to the table `ratings`
later, many in one transaction.
"""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.sqlite import transaction

LEASE_S = 30 * 60.0  # an output opened by a rater is reserved for this long
GOLD = "gold"  # selection of outputs that every rater gets
OPEN, SUBMITTED, SKIPPED = "open", "submitted", "skipped"
_TABLES = """
create table if not exists tasks (
    position integer primary key,
    output_id text not null unique,
    selection text not null,
    inclusion_rate real,
    texts text not null
);
create table if not exists sheets (
    position integer not null references tasks,
    rater text not null,
    state text not null,
    leased_until real not null,
    version integer not null default 0,
    content text not null default '{}',
    spent_s real not null default 0,
    primary key (position, rater)
) without rowid;
create table if not exists marks (
    mark_id integer primary key,
    position integer not null,
    rater text not null,
    criterion_id text not null,
    level_id text,
    score real,
    notes text,
    details text not null default '{}',
    rated_at text not null,
    spent_s real,
    is_stored integer not null default 0
);
create index if not exists marks_of_sheet on marks (position, rater);
create index if not exists open_marks on marks (mark_id) where not is_stored;
"""
# A rater's begun sheet first; then the first output that lacks an opinion. A live lease counts as an opinion, so that
# no more raters than needed get one output by accident. Gold outputs go to every rater.
_NEXT = """
select tasks.position
from tasks
left join sheets as own on own.position = tasks.position and own.rater = $rater
where own.state = 'open'
    or own.state is null and (
        select count(*) from sheets as others
        where others.position = tasks.position and others.rater <> $rater
            and (others.state = 'submitted' or others.state = 'open' and others.leased_until > $now)
    ) < case tasks.selection when 'gold' then 1e9 else $overlap end
order by own.state is null, tasks.position
limit 1
"""


@dataclass(frozen=True, slots=True)
class Task:
    """Output to rate, or pair of outputs. output_id: of a pair both ids, with a space between.

    texts: as in the table `outputs`, the opinions that a lead decides on, and of a gold output the settled levels by
    criterion.
    """

    output_id: str
    selection: str
    inclusion_rate: float | None
    texts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One rater's work on one output. version: number of submissions; content: the fields last submitted or drafted."""

    position: int
    output_id: str
    rater: str
    state: str
    version: int
    content: Mapping[str, str]
    texts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """Rating of one criterion. level_id: None if the criterion does not apply, score is then None too.

    details: of an adjudicator's decision: cause, confidence and whether the rubric needs an update.
    """

    criterion_id: str
    level_id: str | None
    score: float | None
    notes: str | None
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """A rater's progress. left_count: outputs that the rater can still get; pace_s: mean seconds for each sheet."""

    done_count: int
    left_count: int
    pace_s: float | None


class StaleSheet(Exception):
    """The sheet was submitted again since the page was shown."""


class RatingStore:
    """The session's file. Every method is one transaction, on disk when it returns.

    One process serves a session: the file is locked until it is closed. Raises `InputError` if another process has it.
    """

    def __init__(self, path: Path, overlap: int) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self.path, self._overlap, self._turn = path, overlap, threading.Lock()
        self._database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        self._database.row_factory = sqlite3.Row
        try:
            # With exclusive locking, the log needs no shared memory and works on network folders too.
            self._database.execute("pragma locking_mode = exclusive")
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = full")
            self._database.executescript(f"begin immediate; {_TABLES} commit;")
            self._add_missing_columns()
        except sqlite3.Error as error:
            self._database.close()
            what = (
                "another process that serves it" if "locked" in str(error) else f"a file that can't be used ({error})"
            )
            raise InputError(str(path), what, "a rating session of this process alone") from error

    def close(self) -> None:
        self._database.close()

    def _add_missing_columns(self) -> None:
        """Widen the table of a session that an earlier gradebook began."""
        if "spent_s" not in [row["name"] for row in self._database.execute("pragma table_info(marks)")]:
            self._database.execute("alter table marks add column spent_s real")

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Replace the queue. Outputs with a sheet keep their position; others that are not in `tasks` are removed.

        An output whose texts changed, opinions in dispute included, is rated again.
        """
        rows = [
            {**asdict(task), "texts": orjson.dumps(task.texts, option=orjson.OPT_SORT_KEYS).decode()} for task in tasks
        ]
        with self._transaction():
            self._database.executemany(
                "delete from sheets where position in "
                "(select position from tasks where output_id = :output_id and texts <> :texts)",
                rows,
            )
            for table in ("marks", "tasks"):  # SQLite gives the position of a deleted task to another output
                self._database.execute(f"delete from {table} where position not in (select position from sheets)")
            self._database.executemany(
                "insert into tasks (output_id, selection, inclusion_rate, texts) "
                "values (:output_id, :selection, :inclusion_rate, :texts) on conflict (output_id) "
                "do update set selection = excluded.selection, inclusion_rate = excluded.inclusion_rate, "
                "texts = excluded.texts",
                rows,
            )

    def next_sheet(self, rater: str, now: float) -> Sheet | None:
        """Lease the rater's next output; None if nothing is left for the rater."""
        with self._transaction():
            values = {"rater": rater, "now": now, "overlap": self._overlap}
            row = self._database.execute(_NEXT, values).fetchone()
            if row is None:
                return None
            self._database.execute(
                "insert into sheets (position, rater, state, leased_until) values (?, ?, 'open', ?) "
                "on conflict do update set leased_until = excluded.leased_until",
                [row["position"], rater, now + LEASE_S],
            )
            return self._read(row["position"], rater)

    def sheet(self, position: int, rater: str) -> Sheet | None:
        """Sheet of a rater at a position; None if the rater has none there."""
        with self._transaction():
            return self._read(position, rater)

    def previous_position(self, position: int | None, rater: str) -> int | None:
        """The rater's last finished sheet before a position, in the order of the queue; None at the first one."""
        select = "select max(position) from sheets where rater = ? and state <> 'open' and position < coalesce(?, 9e18)"
        with self._transaction():
            (last_position,) = self._database.execute(select, [rater, position]).fetchone()
        return None if last_position is None else int(last_position)

    def save_draft(self, position: int, rater: str, content: Mapping[str, str], now: float) -> bool:
        """Store an unfinished sheet and renew its lease; False if it is finished or not the rater's."""
        with self._transaction():
            changed = self._database.execute(
                "update sheets set content = ?, leased_until = ? where position = ? and rater = ? and state = 'open'",
                [orjson.dumps(content).decode(), now + LEASE_S, position, rater],
            )
            return changed.rowcount > 0

    def skip(self, position: int, rater: str) -> None:
        """Withdraw an unfinished sheet from its rater for good; another rater gets the output."""
        with self._transaction():
            self._database.execute(
                "update sheets set state = 'skipped' where position = ? and rater = ? and state = 'open'",
                [position, rater],
            )

    def submit(
        self,
        sheet: Sheet,
        content: Mapping[str, str],
        marks: Sequence[Mark],
        rated_at: datetime,
        spent_s: float,
    ) -> None:
        """Store a finished sheet. sheet: as the page showed it; the same submission twice is one.

        Only marks that differ from the sheet's last ones are added. Raises `StaleSheet` if the sheet was submitted with
        other content since the page was shown.
        """
        with self._transaction():
            now = self._read(sheet.position, sheet.rater)
            if now is None or now.version != sheet.version:
                if now is not None and now.state == SUBMITTED and dict(now.content) == dict(content):
                    return
                raise StaleSheet
            last = self._last_marks(sheet.position, sheet.rater)
            rows = [
                (sheet.position, sheet.rater, *_values(mark), rated_at.isoformat(), spent_s or None)
                for mark in marks
                if last.get(mark.criterion_id) != _values(mark)
            ]
            self._database.executemany(
                "insert into marks (position, rater, criterion_id, level_id, score, notes, details, rated_at, "
                "spent_s) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._database.execute(
                "update sheets set state = 'submitted', version = version + 1, content = ?, spent_s = spent_s + ? "
                "where position = ? and rater = ?",
                [orjson.dumps(content).decode(), spent_s, sheet.position, sheet.rater],
            )

    def progress(self, rater: str, now: float) -> Progress:
        """Progress of a rater."""
        submitted = "select count(*), avg(nullif(spent_s, 0)) from sheets where rater = ? and state = 'submitted'"
        available = f"select count(*) from ({_NEXT.replace('limit 1', '')})"
        with self._transaction():
            done_count, pace_s = self._database.execute(submitted, [rater]).fetchone()
            values = {"rater": rater, "now": now, "overlap": self._overlap}
            (left_count,) = self._database.execute(available, values).fetchone()
        return Progress(done_count, left_count, pace_s)

    def open_marks(self) -> list[dict[str, Any]]:
        """Marks that are not in the lake yet, oldest first, with their output, selection, inclusion rate and gold."""
        select = (
            "select mark_id, output_id, criterion_id, rater, level_id, score, notes, details, rated_at, "
            "marks.spent_s, selection, inclusion_rate, texts ->> '$.gold' as gold "
            "from marks join tasks using (position) where not is_stored order by mark_id"
        )
        with self._transaction():
            return [dict(row) for row in self._database.execute(select).fetchall()]

    def set_stored(self, last_mark_id: int) -> None:
        """Record that the lake has all marks up to this one."""
        with self._transaction():
            self._database.execute(
                "update marks set is_stored = 1 where not is_stored and mark_id <= ?", [last_mark_id]
            )

    def _read(self, position: int, rater: str) -> Sheet | None:
        row = self._database.execute(
            "select output_id, state, version, content, texts from sheets join tasks using (position) "
            "where position = ? and rater = ?",
            [position, rater],
        ).fetchone()
        if row is None:
            return None
        content, texts = orjson.loads(row["content"]), orjson.loads(row["texts"])
        return Sheet(position, row["output_id"], rater, row["state"], row["version"], content, texts)

    def _last_marks(self, position: int, rater: str) -> dict[str, tuple[Any, ...]]:
        rows = self._database.execute(
            "select criterion_id, level_id, score, notes, details from marks "
            "where position = ? and rater = ? order by mark_id",
            [position, rater],
        )
        return {row["criterion_id"]: tuple(row) for row in rows}

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._turn, transaction(self._database):
            yield


def _values(mark: Mark) -> tuple[Any, ...]:
    details = orjson.dumps(mark.details, option=orjson.OPT_SORT_KEYS).decode()
    return (mark.criterion_id, mark.level_id, mark.score, mark.notes, details)
