"""Leases: one session asks a question, and concurrent sessions wait for its journal instead of paying too.

Leases are rows of one SQLite file next to the journals, shared by all processes.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import orjson

from gradebook.tasks.judging.replies.journal import Journal, JournalTail, is_journal_held
from gradebook.tasks.judging.transport.retry_policy import RATE_LIMIT_PATIENCE_S
from gradebook.tasks.lake.errors import COMMIT_DEADLINE_S, is_conflict
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.system.sqlite import transaction, unforked

LOOK_EVERY_S = 0.3
IDLE_PATIENCE_S = RATE_LIMIT_PATIENCE_S  # a rate-limited session may be silent for this long
STAGE = "answers of another run"  # the stage shown by progress reporters

Row = dict[str, Any]
Keys = tuple[str, ...]  # request keys of one question; several for batched criteria
LedgerLookup = Callable[[list[str]], dict[str, Row]]  # scored judgments in the ledger, by request key
_Job = Callable[[], Coroutine[Any, Any, None]]
_Decided = dict[Keys, list[Row] | None]  # rows of a question; None: this session has to ask it


class Leases:
    """Leases of one session on the questions that it will ask. The owner of a lease is its locked journal.

    A session asks its own leases without waiting for later ones, so there is no circular wait; as a safeguard, and
    against hanging sessions, `IDLE_PATIENCE_S` ends any wait. Leases of a finished session stay in the file until
    another session looks up what became of them. If the file cannot be used, nothing is leased. `note` reports both
    cases.
    """

    def __init__(self, folder: Path, journal: Journal, look_up: LedgerLookup) -> None:
        self.note: str | None = None
        self._folder = folder
        self._owner = journal.path.name
        self._look_up = look_up
        self._lock = threading.Lock()  # one lookup, acquisition or release at a time
        self._tails: dict[str, JournalTail] = {}
        self._grown: dict[str, tuple[int, float]] = {}  # by tail: bytes read, and the time since the last growth
        self._ledger_rows: dict[str, Row] = {}  # rows found in the ledger
        self._foreign: set[str] = set()  # keys that `answered` may be awaited for
        self._waiting: dict[Keys, asyncio.Future[list[Row] | None]] = {}
        self._locked_until: float | None = None  # retry limit while another process locks the ledger
        self._released: list[str] = []
        self._is_stopped = self._is_reported = False
        self._jobs: dict[_Job, asyncio.Task[None]] = {}
        self._store: LeaseStore | None = None
        try:
            self._store = LeaseStore(folder)
        except (sqlite3.Error, OSError) as error:
            self._disable(error)

    def acquire(self, keys: Iterable[str], *, is_late: bool = False) -> frozenset[str]:
        """Lease keys before asking any of them; returns the keys held by others, see `is_foreign`.

        is_late: acquired long after planning, so any of them may be answered by now. Raises as `_look_up_in_time`.
        """
        wanted = list(keys)
        live, abandoned = self._record(wanted)
        return self._find_foreign(wanted, live, abandoned, is_late=is_late)

    def acquire_together(self, keys_by_leases: Iterable[tuple["Leases", Collection[str]]]) -> None:
        """Acquire leases for several sessions with one journal in one transaction, so that no other run interleaves."""
        wanted = [(leases, list(keys)) for leases, keys in keys_by_leases]
        live, abandoned = self._record([key for _, keys in wanted for key in keys])
        for leases, keys in wanted:
            leases._find_foreign(keys, live, abandoned)

    def _record(self, keys: list[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Acquire leases as `LeaseStore.acquire`; if the file cannot be used, no key belongs to others."""
        with self._lock:
            if self._store is None:
                return {}, {}
            try:
                return self._store.acquire(self._owner, keys, self._is_live, self._is_gone)
            except (sqlite3.Error, OSError) as error:
                self._disable(error)
                return {}, {}

    def _find_foreign(
        self, keys: list[str], live: Mapping[str, str], abandoned: Mapping[str, str], *, is_late: bool = False
    ) -> frozenset[str]:
        """Find the keys held by others. live, abandoned: as `LeaseStore.acquire` returns them, maybe with more keys."""
        with self._lock:
            if self._store is None:
                return frozenset()
            for owner in {owners[key] for owners in (live, abandoned) for key in keys if key in owners}:
                self._follow(owner)
            for tail in self._tails.values():
                tail.advance()
            free = [key for key in keys if key not in live and (is_late or key in abandoned)]
            unknown = [key for key in free if self._find(key) is None]
            self._ledger_rows |= self._look_up_in_time(unknown) if unknown else {}
            foreign = frozenset(key for key in keys if key in live or self._find(key) is not None)
            self._foreign.update(foreign)
            return foreign

    def is_foreign(self, keys: Keys) -> bool:
        """Whether `answered` has to be awaited for a question before asking it.

        True if a living session leased all of its keys earlier, or a finished session answered them. The owner of some
        of the batched criteria asks at once.
        """
        return self._foreign.issuperset(keys)

    async def answered(self, *keys: str) -> list[Row] | None:
        """Wait for another session's scored judgments of a question.

        Returns its rows, or None if this session has to ask now: the other session ended, was killed, or released the
        lease. Concurrent waiters of one question get the same answer.
        """
        rows = self._find_all(keys)
        if rows is not None or not self.is_foreign(keys) or self._is_stopped:
            return rows
        if keys not in self._waiting:
            self._waiting[keys] = asyncio.get_running_loop().create_future()
        self._report_waiting()
        self._start(self._watch)
        return await asyncio.shield(self._waiting[keys])

    def stop(self) -> None:
        """Release every waiter; callers check the stop flag themselves. Called in the event loop."""
        self._is_stopped = True
        for future in self._take(list(self._waiting)).values():
            future.set_result(None)

    def release(self, *keys: str) -> None:
        """Release leases whose reply gave no level, so that the waiting sessions ask. Called in the event loop."""
        self._released += keys
        self._start(self._write_releases)

    def close(self) -> None:
        """Stop waiting and close all files; the leases end with the journal's lock."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
            for tail in self._tails.values():
                tail.close()
            self._tails.clear()
        if self._is_reported:
            reporter().end(STAGE)

    def _report_waiting(self) -> None:
        """Report once that the session waits; the total is unknown."""
        if not self._is_reported:
            self._is_reported = True
            reporter().begin(STAGE, None)

    def _disable(self, error: Exception) -> None:
        """Continue without leases: at worst a judgment is paid twice."""
        name = self._folder / LEASES_NAME
        self.note = f"{name}: can't be used ({error}), so runs at once may pay for the same judgment"
        if self._store is not None:
            self._store.close()
            self._store = None

    def _start(self, job: _Job) -> None:
        running = self._jobs.get(job)
        if running is None or running.done():
            self._jobs[job] = asyncio.get_running_loop().create_task(job())

    async def _watch(self) -> None:
        """Look up all waiting questions until none is left."""
        while self._waiting:
            try:
                settled = await asyncio.to_thread(self._look, list(self._waiting))
            except Exception as error:  # noqa: BLE001 - from the lake: raised in every waiter
                for future in self._take(list(self._waiting)).values():
                    future.set_exception(error)
                return
            reporter().advance(STAGE, sum(rows is not None for rows in settled.values()))
            for keys, future in self._take(settled).items():
                if settled[keys] is None:
                    self._foreign.difference_update(keys)
                future.set_result(settled[keys])
            await asyncio.sleep(LOOK_EVERY_S)

    def _take(self, waiting: Iterable[Keys]) -> dict[Keys, asyncio.Future[list[Row] | None]]:
        futures = {keys: self._waiting.pop(keys) for keys in waiting if keys in self._waiting}
        return {keys: future for keys, future in futures.items() if not future.done()}

    def _look(self, waiting: list[Keys]) -> _Decided:
        """Decide waiting questions where possible; empty while another process locks the ledger."""
        with self._lock:
            try:
                decided = self._decide(waiting)
            except (sqlite3.Error, OSError) as error:
                self._disable(error)
                return dict.fromkeys(waiting)
            except duckdb.Error as error:
                if not self._is_locked(error):
                    raise
                return {}
            self._locked_until = None
            return decided

    def _is_locked(self, error: duckdb.Error) -> bool:
        """Whether the error is another process's lock, within the time that commits wait."""
        self._locked_until = self._locked_until or time.monotonic() + COMMIT_DEADLINE_S
        return is_conflict(error) and time.monotonic() < self._locked_until

    def _look_up_in_time(self, keys: list[str]) -> dict[str, Row]:
        """Rows of the ledger for these keys; retries while another process locks it. Raises any other error of the
        ledger.
        """
        while True:
            try:
                rows = self._look_up(keys)
            except duckdb.Error as error:
                if not self._is_locked(error):
                    raise
                time.sleep(LOOK_EVERY_S)
            else:
                self._locked_until = None
                return rows

    def _decide(self, waiting: list[Keys]) -> _Decided:
        if self._store is None:
            return dict.fromkeys(waiting)
        # Liveness is read first: a journal is complete once its writer has ended.
        live = {owner for owner, tail in self._tails.items() if tail.is_live}
        for tail in self._tails.values():
            tail.advance()
        live -= self._idle_owners(live)
        decided: _Decided = {keys: rows for keys in waiting if (rows := self._find_all(keys)) is not None}
        open_keys = [key for keys in waiting if keys not in decided for key in keys if self._find(key) is None]
        owners = self._store.owners_of(self._owner, open_keys) if open_keys else {}
        # Journals are opened before the ledger is read: a journal deleted by now was settled into the ledger before.
        new = {owner for owner in set(owners.values()) if self._follow(owner)}
        abandoned = {key: owners.get(key) for key in open_keys if owners.get(key) not in live | new}
        if not abandoned:
            return decided
        self._ledger_rows |= self._look_up(list(abandoned))
        decided |= {
            keys: rows for keys in waiting if keys not in decided and (rows := self._find_all(keys)) is not None
        }
        lost = {key: owner for key, owner in abandoned.items() if key not in self._ledger_rows}
        taken = set(self._store.take_over(self._owner, lost)) if lost else set()
        # A session that owns some of the batched criteria asks at once, as others may wait for it.
        return decided | {keys: None for keys in waiting if keys not in decided and not taken.isdisjoint(keys)}

    def _idle_owners(self, live: set[str]) -> set[str]:
        """Living owners whose journals have not grown for `IDLE_PATIENCE_S`."""
        now = time.monotonic()
        for owner, tail in self._tails.items():
            if owner not in self._grown or self._grown[owner][0] != tail.size:
                self._grown[owner] = (tail.size, now)
        idle = {owner for owner in live if now - self._grown[owner][1] >= IDLE_PATIENCE_S}
        for owner in sorted(idle):
            self.note = (
                f"{self._folder / owner}: has not grown for {IDLE_PATIENCE_S / 60:g} minutes, so this run asked what "
                "that one was to ask; some of it may be paid for twice"
            )
        return idle

    def _find_all(self, keys: Keys) -> list[Row] | None:
        rows = [self._find(key) for key in keys]
        return [row for row in rows if row is not None] if None not in rows else None

    def _find(self, key: str) -> Row | None:
        if key in self._ledger_rows:
            return self._ledger_rows[key]
        return next((row for tail in list(self._tails.values()) if (row := tail.judgment(key)) is not None), None)

    def _follow(self, owner: str) -> bool:
        """Open an owner's journal; returns whether it is new and not read yet."""
        if owner in self._tails:
            return False
        try:
            self._tails[owner] = JournalTail(self._folder / owner)
        except FileNotFoundError:  # settled into the ledger by now
            return False
        return True

    def _is_live(self, owner: str) -> bool:
        return is_journal_held(self._folder / owner)

    def _is_gone(self, owner: str) -> bool:
        return not (self._folder / owner).exists()

    async def _write_releases(self) -> None:
        """Write released leases to the file in batches."""
        while self._released:
            await asyncio.sleep(LOOK_EVERY_S)
            keys, self._released = self._released, []
            await asyncio.to_thread(self._drop_released, keys)

    def _drop_released(self, keys: list[str]) -> None:
        with self._lock:
            if self._store is None:
                return
            try:
                self._store.release(self._owner, keys)
            except (sqlite3.Error, OSError) as error:
                self._disable(error)


LEASES_NAME = "claims.sqlite"  # the file and its tables keep their first name: gradebook's versions share them
BUSY_TIMEOUT_S = 30.0
_OURS = 0x67626B31  # SQLite's application_id: "gbk1"
_TABLES = (
    "create table owners (id integer primary key, journal text not null unique)",
    "create table claims (request_key text primary key, owner integer not null) without rowid",
    f"pragma application_id = {_OURS}",
)
_FOREIGN = """
select wanted.request_key, owners.journal
from temp.wanted
inner join claims on wanted.request_key = claims.request_key
inner join owners on claims.owner = owners.id
where owners.journal <> ?
"""
_DROP_WANTED = """
delete from claims
where request_key in (select request_key from temp.wanted)
    and owner in (select id from owners where journal in (select value from json_each(?)))
"""


class ForeignFile(sqlite3.DatabaseError):
    """The file is a database of something else."""

    def __str__(self) -> str:
        return "a database of something else"


class LeaseStore:
    """Leases of all sessions in one folder, by request key. An owner is the name of its journal.

    The database has no write-ahead log, which needs shared memory, because several machines may share the folder. Every
    method is one transaction, and raises `sqlite3.Error` if the file is broken, foreign, locked for too long or not
    writable.
    """

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(
            folder / LEASES_NAME, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            self._database.execute("pragma temp_store = memory")
            # A lease is worth nothing once its owner is gone, so none has to outlive a crash of the machine; a killed
            # process loses nothing. Waiting for the disk would take 10 ms of each request for a reward.
            self._database.execute("pragma synchronous = off")
            with self._transaction():
                self._make_tables()
            self._database.execute("create temp table wanted (request_key text)")
        except BaseException:
            self._database.close()
            raise

    def acquire(
        self, owner: str, keys: Sequence[str], is_live: Callable[[str], bool], is_gone: Callable[[str], bool]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Lease the keys that no living owner has.

        Returns the keys of living owners, and the keys taken over from dead owners, each with its owner. Other leases
        of a dead owner stay until its journal is deleted, as they lead later sessions to that journal.
        """
        with self._transaction(), self._wanted(keys):
            foreign = dict(self._database.execute(_FOREIGN, [owner]).fetchall())
            dead = {journal for journal in dict.fromkeys(foreign.values()) if not is_live(journal)}
            self._database.execute(_DROP_WANTED, [orjson.dumps(sorted(dead)).decode()])
            journals = [row[0] for row in self._database.execute("select journal from owners").fetchall()]
            for journal in journals:
                if journal != owner and is_gone(journal):
                    self._drop(journal)
            self._database.execute(
                "insert or ignore into claims select request_key, ? from temp.wanted", [self._id_of(owner)]
            )
        live = {key: journal for key, journal in foreign.items() if journal not in dead}
        return live, {key: journal for key, journal in foreign.items() if journal in dead}

    def owners_of(self, owner: str, keys: Sequence[str]) -> dict[str, str]:
        """Other owner of each key; keys without another owner are omitted."""
        with self._transaction("deferred"), self._wanted(keys):
            return dict(self._database.execute(_FOREIGN, [owner]).fetchall())

    def take_over(self, owner: str, abandoned: Mapping[str, str | None]) -> list[str]:
        """Lease keys left by another owner, or by all owners (None); returns the keys still free."""
        with self._transaction(), self._wanted(list(abandoned)):
            now = dict(self._database.execute(_FOREIGN, [owner]).fetchall())
            taken = [(key, self._id_of(owner)) for key, journal in abandoned.items() if now.get(key) == journal]
            self._database.executemany("insert or replace into claims values (?, ?)", taken)
        return [key for key, _ in taken]

    def release(self, owner: str, keys: Sequence[str]) -> None:
        """Give up leases, so that others ask."""
        with self._transaction():
            number = self._id_of(owner)
            self._database.executemany(
                "delete from claims where request_key = ? and owner = ?", [(key, number) for key in keys]
            )

    def close(self) -> None:
        self._database.close()

    def _make_tables(self) -> None:
        (application,) = self._database.execute("pragma application_id").fetchone()
        if application == _OURS:
            return
        (table_count,) = self._database.execute("select count(*) from sqlite_master").fetchone()
        if application or table_count:
            raise ForeignFile
        for statement in _TABLES:
            self._database.execute(statement)

    @contextmanager
    def _transaction(self, kind: str = "immediate") -> Iterator[None]:
        with unforked, transaction(self._database, kind):
            yield

    @contextmanager
    def _wanted(self, keys: Sequence[str]) -> Iterator[None]:
        """Provide the keys as a temporary table of this connection."""
        in_order = orjson.dumps(sorted(keys)).decode()  # sorted as the index and in one parameter: half the time
        self._database.execute("insert into temp.wanted select value from json_each(?)", [in_order])
        yield
        self._database.execute("delete from temp.wanted")

    def _id_of(self, owner: str) -> int:
        self._database.execute("insert or ignore into owners (journal) values (?)", [owner])
        row = self._database.execute("select id from owners where journal = ?", [owner]).fetchone()
        return int(row[0])

    def _drop(self, owner: str) -> None:
        self._database.execute("delete from claims where owner in (select id from owners where journal = ?)", [owner])
        self._database.execute("delete from owners where journal = ?", [owner])
