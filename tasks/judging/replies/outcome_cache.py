"""Cache of a session's outcomes outside memory: each takes at least a kilobyte."""

import pickle
import sqlite3
from contextlib import closing, suppress

from gradebook.tasks.judging.replies.question import Outcome
from gradebook.tasks.system.forking import unforked

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
