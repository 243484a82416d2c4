"""Claims: of sessions that want the same reply at once, one asks and the others wait for its journal."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from gradebook.tasks.judging.replies.journal import Journal, JournalTail, is_journal_held
from gradebook.tasks.judging.session.lease_store import CLAIMS_NAME, ClaimStore
from gradebook.tasks.judging.transport.retry_policy import RATE_LIMIT_PATIENCE_S
from gradebook.tasks.lake.errors import COMMIT_DEADLINE_S, is_conflict
from gradebook.tasks.system.progress import reporter

LOOK_EVERY_S = 0.3
IDLE_PATIENCE_S = RATE_LIMIT_PATIENCE_S  # so long a session that is held off may write nothing to its journal
STAGE = "answers of another run"  # what is waited for, for whoever watches

Row = dict[str, Any]
Keys = tuple[str, ...]  # the request keys of one question: several where it is a pack
Held = Callable[[list[str]], dict[str, Row]]  # what the ledger holds of some request keys: the scored judgment of each
_Job = Callable[[], Coroutine[Any, Any, None]]
_Decided = dict[Keys, list[Row] | None]  # the rows of a question, or None where this session has to ask it


class Claims:
    """What one session will ask, written down for the others. The owner is its journal, which is locked while it lives.

    What is claimed is asked without waiting for anything that was claimed later, so nobody waits in a circle; where
    one comes to be all the same, or a session hangs, `IDLE_PATIENCE_S` ends the waiting. Claims stay on file when their
    session ends, until one that wants the same looks up what became of them. Where the file can't be used there are no
    claims. `note` tells of both.
    """

    def __init__(self, folder: Path, journal: Journal, held: Held) -> None:
        self.note: str | None = None
        self._folder = folder
        self._owner = journal.path.name
        self._held = held
        self._lock = threading.Lock()  # one look, claim or release at a time
        self._tails: dict[str, JournalTail] = {}
        self._grown: dict[str, tuple[int, float]] = {}  # of each tail: how far it was read, and since when
        self._known: dict[str, Row] = {}  # what the ledger held
        self._foreign: set[str] = set()  # what `answered` may be awaited for
        self._waiting: dict[Keys, asyncio.Future[list[Row] | None]] = {}
        self._locked_until: float | None = None  # the ledger, since a look that met another's lock
        self._released: list[str] = []
        self._is_stopped = self._is_told = False
        self._jobs: dict[_Job, asyncio.Task[None]] = {}
        self._store: ClaimStore | None = None
        try:
            self._store = ClaimStore(folder)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def claim(self, keys: Iterable[str], *, is_late: bool = False) -> frozenset[str]:
        """Claim keys, before any of them is asked; returns those of others, see `is_foreign`.

        is_late: long after the plan was made, so that any may be answered since. Raises as `_held_in_time`.
        """
        wanted = list(keys)
        live, left = self._write_down(wanted)
        return self._take_in(wanted, live, left, is_late=is_late)

    def claim_beside(self, others: Iterable[tuple["Claims", Collection[str]]]) -> None:
        """Claim keys for several sessions with one journal in one go, so that none of another run comes in between."""
        wanted = [(claims, list(keys)) for claims, keys in others]
        live, left = self._write_down([key for _, keys in wanted for key in keys])
        for claims, keys in wanted:
            claims._take_in(keys, live, left)

    def _write_down(self, keys: list[str]) -> tuple[dict[str, str], dict[str, str]]:
        """As `ClaimStore.claim`; no key is of others where the file can't be used."""
        with self._lock:
            if self._store is None:
                return {}, {}
            try:
                return self._store.claim(self._owner, keys, self._is_live, self._is_gone)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
                return {}, {}

    def _take_in(
        self, keys: list[str], live: Mapping[str, str], left: Mapping[str, str], *, is_late: bool = False
    ) -> frozenset[str]:
        """Find out which keys are of others. live, left: as `ClaimStore.claim` says, also of more keys."""
        with self._lock:
            if self._store is None:
                return frozenset()
            for owner in {owners[key] for owners in (live, left) for key in keys if key in owners}:
                self._follow(owner)
            for tail in self._tails.values():
                tail.advance()
            free = [key for key in keys if key not in live and (is_late or key in left)]
            lost = [key for key in free if self._find(key) is None]
            self._known |= self._held_in_time(lost) if lost else {}
            foreign = frozenset(key for key in keys if key in live or self._find(key) is not None)
            self._foreign.update(foreign)
            return foreign

    def is_foreign(self, keys: Keys) -> bool:
        """Whether `answered` is to be awaited for a question before it is asked.

        That is where a living session claimed all of its keys before, or one answered them that has ended since. Who
        owns a part of a pack asks it at once.
        """
        return self._foreign.issuperset(keys)

    async def answered(self, *keys: str) -> list[Row] | None:
        """Wait for another session's scored judgments of a question: its rows, or None: ask it now, the claim is yours.

        None comes where its session ended, was killed, or released it. Who waits for the same gets the same.
        """
        found = self._find_all(keys)
        if found is not None or not self.is_foreign(keys) or self._is_stopped:
            return found
        if keys not in self._waiting:
            self._waiting[keys] = asyncio.get_running_loop().create_future()
        self._tell()
        self._start(self._watch)
        return await asyncio.shield(self._waiting[keys])

    def stop(self) -> None:
        """Let all who wait go on; they know themselves why nothing is to be asked. Called in the event loop."""
        self._is_stopped = True
        for future in self._take(list(self._waiting)).values():
            future.set_result(None)

    def release(self, *keys: str) -> None:
        """Give up claims whose reply gave no level, so that whoever waits for them asks. Called in the event loop."""
        self._released += keys
        self._start(self._pass_on)

    def close(self) -> None:
        """End this session's waiting and let go of all files; its claims end with its journal's lock."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
            for tail in self._tails.values():
                tail.close()
            self._tails.clear()
        if self._is_told:
            reporter().end(STAGE)

    def _tell(self) -> None:
        """Say that something is waited for, once: nobody knows for how much."""
        if not self._is_told:
            self._is_told = True
            reporter().begin(STAGE, None)

    def _give_up(self, error: Exception) -> None:
        """Go on without claims: at worst something is paid twice, which is better than nothing judged."""
        name = self._folder / CLAIMS_NAME
        self.note = f"{name}: can't be used ({error}), so runs at once may pay for the same judgment"
        if self._store is not None:
            self._store.close()
            self._store = None

    def _start(self, job: _Job) -> None:
        running = self._jobs.get(job)
        if running is None or running.done():
            self._jobs[job] = asyncio.get_running_loop().create_task(job())

    async def _watch(self) -> None:
        """Look on behalf of all who wait, as long as somebody does."""
        while self._waiting:
            try:
                settled = await asyncio.to_thread(self._look, list(self._waiting))
            except Exception as error:  # noqa: BLE001 - the lake's: raised where it is waited for
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
        """What is decided of some questions; nothing while another process holds the ledger."""
        with self._lock:
            try:
                decided = self._decide(waiting)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
                return dict.fromkeys(waiting)
            except duckdb.Error as error:
                if not self._may_pass(error):
                    raise
                return {}
            self._locked_until = None
            return decided

    def _may_pass(self, error: duckdb.Error) -> bool:
        """Whether another process holds the ledger, and not for longer than commits wait."""
        self._locked_until = self._locked_until or time.monotonic() + COMMIT_DEADLINE_S
        return is_conflict(error) and time.monotonic() < self._locked_until

    def _held_in_time(self, keys: list[str]) -> dict[str, Row]:
        """What the ledger holds, once no other process holds it. Raises what it raises, if that is no lock."""
        while True:
            try:
                held = self._held(keys)
            except duckdb.Error as error:
                if not self._may_pass(error):
                    raise
                time.sleep(LOOK_EVERY_S)
            else:
                self._locked_until = None
                return held

    def _decide(self, waiting: list[Keys]) -> _Decided:
        if self._store is None:
            return dict.fromkeys(waiting)
        # Whether they live comes first: what a journal holds after its writer's end is all there will be.
        live = {owner for owner, tail in self._tails.items() if tail.is_live}
        for tail in self._tails.values():
            tail.advance()
        live -= self._idle_owners(live)
        decided: _Decided = {keys: rows for keys in waiting if (rows := self._find_all(keys)) is not None}
        open_keys = [key for keys in waiting if keys not in decided for key in keys if self._find(key) is None]
        owners = self._store.owners_of(self._owner, open_keys) if open_keys else {}
        # Opened before the ledger is read: a journal that is gone by now was in it before it went.
        new = {owner for owner in set(owners.values()) if self._follow(owner)}
        left = {key: owners.get(key) for key in open_keys if owners.get(key) not in live | new}
        if not left:
            return decided
        self._known |= self._held(list(left))
        decided |= {
            keys: rows for keys in waiting if keys not in decided and (rows := self._find_all(keys)) is not None
        }
        lost = {key: owner for key, owner in left.items() if key not in self._known}
        taken = set(self._store.take_over(self._owner, lost)) if lost else set()
        # Who has taken a part of a pack asks it at once: nobody waits for others while others may wait for it.
        return decided | {keys: None for keys in waiting if keys not in decided and not taken.isdisjoint(keys)}

    def _idle_owners(self, live: set[str]) -> set[str]:
        """Those of the living whose journals have not grown for so long that nobody waits for them any more."""
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
        """Begin to read an owner's journal; whether that is new, and so not read yet."""
        if owner in self._tails:
            return False
        try:
            self._tails[owner] = JournalTail(self._folder / owner)
        except FileNotFoundError:  # in the ledger by now
            return False
        return True

    def _is_live(self, owner: str) -> bool:
        return is_journal_held(self._folder / owner)

    def _is_gone(self, owner: str) -> bool:
        return not (self._folder / owner).exists()

    async def _pass_on(self) -> None:
        """Write down what was released, all of a moment together."""
        while self._released:
            await asyncio.sleep(LOOK_EVERY_S)
            keys, self._released = self._released, []
            await asyncio.to_thread(self._drop, keys)

    def _drop(self, keys: list[str]) -> None:
        with self._lock:
            if self._store is None:
                return
            try:
                self._store.release(self._owner, keys)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
