"""Leases: of sessions that want the same reply at once, one asks and the others wait for its journal."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from gradebook.tasks.judging.replies.journal import Journal, JournalTail, is_journal_held
from gradebook.tasks.judging.session.lease_store import LEASES_NAME, LeaseStore
from gradebook.tasks.judging.transport.retry_policy import RATE_LIMIT_PATIENCE_S
from gradebook.tasks.lake.errors import COMMIT_DEADLINE_S, is_conflict
from gradebook.tasks.system.progress import reporter

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
        self._known: dict[str, Row] = {}  # rows found in the ledger
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
        live, left = self._record(wanted)
        return self._find_foreign(wanted, live, left, is_late=is_late)

    def acquire_together(self, others: Iterable[tuple["Leases", Collection[str]]]) -> None:
        """Acquire leases for several sessions with one journal in one transaction, so that no other run interleaves."""
        wanted = [(leases, list(keys)) for leases, keys in others]
        live, left = self._record([key for _, keys in wanted for key in keys])
        for leases, keys in wanted:
            leases._find_foreign(keys, live, left)

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
        self, keys: list[str], live: Mapping[str, str], left: Mapping[str, str], *, is_late: bool = False
    ) -> frozenset[str]:
        """Find the keys held by others. live, left: as returned by `LeaseStore.acquire`, possibly with more keys."""
        with self._lock:
            if self._store is None:
                return frozenset()
            for owner in {owners[key] for owners in (live, left) for key in keys if key in owners}:
                self._follow(owner)
            for tail in self._tails.values():
                tail.advance()
            free = [key for key in keys if key not in live and (is_late or key in left)]
            unknown = [key for key in free if self._find(key) is None]
            self._known |= self._look_up_in_time(unknown) if unknown else {}
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
        found = self._find_all(keys)
        if found is not None or not self.is_foreign(keys) or self._is_stopped:
            return found
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
        taken = {keys: self._waiting.pop(keys) for keys in waiting if keys in self._waiting}
        return {keys: future for keys, future in taken.items() if not future.done()}

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
        left = {key: owners.get(key) for key in open_keys if owners.get(key) not in live | new}
        if not left:
            return decided
        self._known |= self._look_up(list(left))
        decided |= {
            keys: rows for keys in waiting if keys not in decided and (rows := self._find_all(keys)) is not None
        }
        lost = {key: owner for key, owner in left.items() if key not in self._known}
        taken = set(self._store.take_over(self._owner, lost)) if lost else set()
        # A session that owns some of the batched criteria asks at once: nobody waits while others may wait for it.
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
        if key in self._known:
            return self._known[key]
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
