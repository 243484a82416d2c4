"""Cache of a session's outcomes outside memory: each takes at least a kilobyte."""

import pickle
import sqlite3
from contextlib import suppress

from gradebook.tasks.judging.replies.question import Outcome
from gradebook.tasks.system.forking import unforked


class OutcomeCache:
    """Outcomes by request key, in a temporary database that SQLite spills to disk and deletes. Used from one thread."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("pragma journal_mode = memory")
        self._database.execute("create table outcomes (request_key text primary key, outcome blob) without rowid")
        self._unwritten: dict[str, Outcome] = {}  # outcomes that a full disk refused; they must not be paid for again

    def store(self, key: str, outcome: Outcome) -> None:
        """Store the outcome of a key, replacing an earlier one."""
        self._unwritten[key] = outcome
        with unforked, suppress(sqlite3.Error):
            self._database.execute("insert or replace into outcomes values (?, ?)", (key, pickle.dumps(outcome)))
            del self._unwritten[key]

    def find(self, key: str) -> Outcome | None:
        """Outcome of a key; None if none was stored."""
        if key in self._unwritten:
            return self._unwritten[key]
        with unforked:
            row = self._database.execute("select outcome from outcomes where request_key = ?", (key,)).fetchone()
        outcome: Outcome | None = row and pickle.loads(row[0])
        return outcome

    def close(self) -> None:
        self._database.close()
