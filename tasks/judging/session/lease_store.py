"""Lease file: one SQLite file beside the journals, shared by all processes."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from gradebook.tasks.system.forking import unforked
from gradebook.tasks.system.transactions import transaction

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
            others = dict(self._database.execute(_FOREIGN, [owner]).fetchall())
            dead = {journal for journal in dict.fromkeys(others.values()) if not is_live(journal)}
            self._database.execute(_DROP_WANTED, [orjson.dumps(sorted(dead)).decode()])
            journals = [row[0] for row in self._database.execute("select journal from owners").fetchall()]
            for journal in journals:
                if journal != owner and is_gone(journal):
                    self._drop(journal)
            self._database.execute(
                "insert or ignore into claims select request_key, ? from temp.wanted", [self._id_of(owner)]
            )
        live = {key: journal for key, journal in others.items() if journal not in dead}
        return live, {key: journal for key, journal in others.items() if journal in dead}

    def owners_of(self, owner: str, keys: Sequence[str]) -> dict[str, str]:
        """Other owner of each key; keys without another owner are omitted."""
        with self._transaction("deferred"), self._wanted(keys):
            return dict(self._database.execute(_FOREIGN, [owner]).fetchall())

    def take_over(self, owner: str, left: Mapping[str, str | None]) -> list[str]:
        """Lease keys left by another owner, or by all owners (None); returns the keys still free."""
        with self._transaction(), self._wanted(list(left)):
            now = dict(self._database.execute(_FOREIGN, [owner]).fetchall())
            taken = [(key, self._id_of(owner)) for key, journal in left.items() if now.get(key) == journal]
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
