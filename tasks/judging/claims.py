"""Claims: of sessions that want the same reply at once, one asks and the others wait for its journal."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from tasks.judging.claim_store import CLAIMS_NAME, ClaimStore
from tasks.judging.journal import Journal, JournalTail, is_journal_held

LOOK_EVERY_S = 0.3

Row = dict[str, Any]
Held = Callable[[list[str]], dict[str, Row]]  # what the ledger holds of some request keys: the scored judgment of each
_Job = Callable[[], Coroutine[Any, Any, None]]


class Claims:
    """What one session will ask, written down for the others. The owner is its journal, which is locked while it lives.

    A session claims once, before it asks, and so waits only for sessions that claimed before it: nobody waits in a
    circle. Claims stay on file when their session ends, until the next one claims and looks up what became of them.
    Where the file can't be used there are no claims, and `note` says why.
    """

    def __init__(self, folder: Path, journal: Journal, held: Held) -> None:
        self.note: str | None = None
        self._folder = folder
        self._owner = journal.path.name
        self._held = held
        self._lock = threading.Lock()  # one look, claim or release at a time
        self._tails: dict[str, JournalTail] = {}
        self._known: dict[str, Row] = {}  # answered before this session claimed
        self._foreign: set[str] = set()
        self._waiting: dict[str, asyncio.Future[Row | None]] = {}
        self._released: list[str] = []
        self._is_stopped = False
        self._jobs: dict[_Job, asyncio.Task[None]] = {}
        self._store: ClaimStore | None = None
        try:
            self._store = ClaimStore(folder)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def claim(self, keys: Iterable[str]) -> frozenset[str]:
        """Claim all keys that this session will ask, once; returns those that `answered` is to be awaited for.

        Those are the keys that a living session claimed before, and those that one answered which has ended since.
        """
        with self._lock:
            if self._store is None:
                return frozenset()
            try:
                live, left = self._store.claim(self._owner, list(keys), self._is_live)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
                return frozenset()
            self._foreign = set(live)
            for owner in {*live.values(), *left.values()}:
                self._follow(owner)
            for tail in self._tails.values():
                tail.advance()
            self._known = self._held([key for key in left if self._find(key) is None]) if left else {}
            return frozenset(live) | {key for key in left if self._find(key) is not None}

    async def answered(self, key: str) -> Row | None:
        """Wait for another session's scored judgment of a key: its row, or None: ask it now, the claim is yours.

        None comes where its session ended, was killed, or released it. Who waits for the same key gets the same.
        """
        found = self._find(key)
        if found is not None or key not in self._foreign or self._is_stopped:
            return found
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        self._start(self._watch)
        return await asyncio.shield(self._waiting[key])

    def stop(self) -> None:
        """Let all who wait go on; they know themselves why nothing is to be asked. Called in the event loop."""
        self._is_stopped = True
        for future in self._take(list(self._waiting)).values():
            future.set_result(None)

    def release(self, key: str) -> None:
        """Give up a claim whose reply gave no level, so that whoever waits for it asks. Called in the event loop."""
        self._released.append(key)
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
            for key, future in self._take(settled).items():
                self._foreign.discard(key)
                future.set_result(settled[key])
            await asyncio.sleep(LOOK_EVERY_S)

    def _take(self, keys: Iterable[str]) -> dict[str, asyncio.Future[Row | None]]:
        taken = {key: self._waiting.pop(key) for key in keys if key in self._waiting}
        return {key: future for key, future in taken.items() if not future.done()}

    def _look(self, keys: list[str]) -> dict[str, Row | None]:
        """What is decided of some keys: a row, or None where this session has to ask."""
        with self._lock:
            try:
                return self._decide(keys)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)
                return dict.fromkeys(keys)

    def _decide(self, keys: list[str]) -> dict[str, Row | None]:
        if self._store is None:
            return dict.fromkeys(keys)
        # Whether they live comes first: what a journal holds after its writer's end is all there will be.
        live = {owner for owner, tail in self._tails.items() if tail.is_live}
        for tail in self._tails.values():
            tail.advance()
        decided: dict[str, Row | None] = {key: row for key in keys if (row := self._find(key)) is not None}
        waited_for = [key for key in keys if key not in decided]
        owners = self._store.owners_of(self._owner, waited_for) if waited_for else {}
        # Opened before the ledger is read: a journal that is gone by now was in it before it went.
        new = {owner for owner in set(owners.values()) if self._follow(owner)}
        left = {key: owners.get(key) for key in waited_for if owners.get(key) not in live | new}
        if left:
            decided |= self._held(list(left))
            open_keys = {key: owner for key, owner in left.items() if key not in decided}
            decided |= dict.fromkeys(self._store.take_over(self._owner, open_keys))
        return decided

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
