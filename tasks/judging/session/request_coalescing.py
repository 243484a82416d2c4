"""Request coalescing: a session asks equal questions once, and caches their outcomes outside memory."""

import asyncio
import pickle
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from gradebook.tasks.judging.replies.question import Askable, Outcome
from gradebook.tasks.system.sqlite import unforked


class SharedAnswers:
    """Outcomes of a session by request key, without the questions. Used from one event loop."""

    def __init__(self, ask: Callable[[Askable[Any]], Awaitable[Outcome]]) -> None:
        self._ask = ask
        self._outcomes = OutcomeCache()
        self._in_progress: dict[str, asyncio.Future[Outcome]] = {}

    async def answer(self, question: Askable[Any]) -> Outcome:
        """Ask, or wait for an equal question in progress.

        A waiter pays nothing and gets the same fault if one is raised. An asker never waits for a waiter, so their
        number does not matter.
        """
        key = question.request_key
        pending = self._in_progress.get(key)
        stored = self._outcomes.find(key) if pending is None else await asyncio.shield(pending)
        if stored is not None:
            return unpaid(stored)
        pending = asyncio.get_running_loop().create_future()
        self._in_progress[key] = pending
        try:
            outcome = await self._ask(question)
        except BaseException as error:
            _fail(pending, error)
            raise
        else:
            self._outcomes.store(key, outcome)
            pending.set_result(outcome)
            return outcome
        finally:
            del self._in_progress[key]

    def close(self) -> None:
        self._outcomes.close()


def unpaid(outcome: Outcome) -> Outcome:
    """Outcome for an equal question, which cost nothing more."""
    if outcome.paid_by is not None:  # its cost is another run's
        return outcome
    parts = outcome.parts and tuple(replace(part, cost_usd=0.0, request_count=0) for part in outcome.parts)
    return replace(outcome, cost_usd=0.0, request_count=0, parts=parts)


def _fail(pending: asyncio.Future[Outcome], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        pending.cancel()
        return
    pending.set_exception(error)
    pending.exception()  # mark as retrieved, even without waiters


MOST_UNWRITTEN = 256  # a transaction for each outcome would take longer than its insertion


class OutcomeCache:
    """Outcomes by request key, in a temporary database that SQLite spills to disk and deletes. Used from one thread."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("pragma journal_mode = memory")
        self._database.execute("create table outcomes (request_key text primary key, outcome blob) without rowid")
        self._unwritten: dict[str, Outcome] = {}  # the latest, and all from a full disk on: none may be paid for again
        self._most_unwritten = MOST_UNWRITTEN

    def store(self, key: str, outcome: Outcome) -> None:
        """Store the outcome of a key, replacing an earlier one."""
        self._unwritten[key] = outcome
        if len(self._unwritten) >= self._most_unwritten:
            self._write()

    def find(self, key: str) -> Outcome | None:
        """Outcome of a key; None if none was stored."""
        if key in self._unwritten:
            return self._unwritten[key]
        with unforked:
            row = self._database.execute("select outcome from outcomes where request_key = ?", (key,)).fetchone()
        outcome: Outcome | None = row and pickle.loads(row[0])
        return outcome

    def _write(self) -> None:
        rows = [(key, pickle.dumps(outcome)) for key, outcome in self._unwritten.items()]
        try:
            with unforked, closing(self._database.cursor()) as cursor:
                cursor.execute("begin")
                cursor.executemany("insert or replace into outcomes values (?, ?)", rows)
                cursor.execute("commit")
            self._unwritten.clear()
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                self._database.execute("rollback")
            self._most_unwritten = len(self._unwritten) + MOST_UNWRITTEN

    def close(self) -> None:
        self._database.close()
