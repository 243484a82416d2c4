"""Transactions of a lake, retried after conflicts and lost connections until committed exactly once.

A commit whose reply was lost may have succeeded. Each carries a unique mark, which the next try looks for.
"""

import json
import random
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import duckdb

from gradebook.rubrics.model.errors import LakeError, LakeUnavailable
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.data_files import DIGESTS, digests_of
from gradebook.tasks.lake.errors import COMMIT_DEADLINE_S, is_conflict, is_lost, is_read_only, locked_fault
from gradebook.tasks.lake.object_store import store_fault
from gradebook.tasks.system.files import sync_new_files

LOST_DEADLINE_S = 60.0  # restarting servers are back sooner
MARK = "commit"  # its key in the commit's extra info
_MARKED = "select snapshot_id from ducklake_snapshots('lake') where try_cast(commit_extra_info as json) ->> '{}' = ?"

Body = Callable[[duckdb.DuckDBPyConnection, int], None]
Opened = Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]


class CommitUnknown(LakeUnavailable):
    """The catalog's server went away during a commit and did not come back: the commit may have succeeded."""


class Transaction:
    """Body of a transaction, its message, and the state of its tries."""

    def __init__(self, lake: Lake, body: Body, message: str, extra: str) -> None:
        self._lake = lake
        self._body = body
        self._message = message
        self._mark = secrets.token_hex(8)
        self._extra = json.loads(extra) | {MARK: self._mark}
        self._is_sent = False  # whether this try's commit was sent
        self._is_unclear = False  # whether an earlier commit was sent and its outcome is unknown
        self._attempt = 0
        self._began = time.time()  # start of the first try: a later one may reuse its files

    def run(self, opened: Opened) -> int:
        """Commit once and return the version. opened: opens a connection to the lake, anew after a lost one.

        Raises `LakeError` if the catalog can't be written, `LakeUnavailable` if it stays locked or its server stays
        away, `CommitUnknown` if the commit may have succeeded nevertheless.
        """
        deadline = time.monotonic() + COMMIT_DEADLINE_S
        lost_deadline: float | None = None
        while True:
            try:
                with opened() as connection:
                    return self._retry_conflicts(connection, deadline)
            except LakeUnavailable as fault:
                self._is_unclear |= self._is_sent
                now = time.monotonic()
                lost_deadline = lost_deadline or now + LOST_DEADLINE_S
                if now > min(deadline, lost_deadline):
                    raise self._final_fault(fault) from None
            time.sleep(random.uniform(0.2, 0.6))  # noqa: S311 - jitter, no secret

    def _retry_conflicts(self, connection: duckdb.DuckDBPyConnection, deadline: float) -> int:
        while True:
            try:
                if self._is_unclear and (version := self._version_made(connection)) is not None:
                    return version
                return self._commit_once(connection)
            except duckdb.Error as error:
                roll_back(connection)
                if is_read_only(error):
                    raise LakeError(f"{self._lake.name}: the catalog can't be written, only read") from error
                if is_lost(error) or not is_conflict(error) or store_fault(self._lake.bucket, error) is not None:
                    raise
                self._is_sent = False  # the commit was refused
                if time.monotonic() > deadline:
                    raise locked_fault(self._lake) from error
            except BaseException:
                roll_back(connection)
                raise
            self._attempt += 1
            time.sleep(random.uniform(0, min(2.0, 0.05 * 2**self._attempt)))  # noqa: S311 - jitter, no secret

    def _commit_once(self, connection: duckdb.DuckDBPyConnection) -> int:
        self._is_sent = False
        connection.execute("begin")
        rows = connection.execute("select id from ducklake_current_snapshot('lake')").fetchall()
        version = int(rows[0][0]) + 1 if rows else 1
        self._body(connection, version)
        describe_commit(connection, self._lake, self._message, self._extra, self._began)
        self._is_sent = True
        connection.execute("commit")
        return version

    def _version_made(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """Version that an earlier try made, if its commit succeeded."""
        rows = connection.execute(_MARKED.format(MARK), [self._mark]).fetchall()
        return int(rows[0][0]) if rows else None

    def _final_fault(self, fault: LakeUnavailable) -> LakeUnavailable:
        """The given fault, or `CommitUnknown` if a commit was sent without a reply."""
        if not self._is_unclear:
            return fault
        return CommitUnknown(
            f"{fault}; it is not known whether {self._message!r} was committed: run the same command again to see"
        )


def describe_commit(
    connection: duckdb.DuckDBPyConnection, lake: Lake, message: str, extra: Mapping[str, object], since: float
) -> None:
    """Bring a transaction's new files to disk, and note their digests in its log entry, just before it commits.

    A power cut must not empty files that the catalog names. since: when the transaction began, seconds since the epoch.
    """
    new_files = [] if lake.bucket is not None else sync_new_files(Path(lake.data_path), since)
    digests = digests_of(connection, lake, new_files)
    info = json.dumps({**extra, DIGESTS: digests} if digests else extra)
    connection.execute("call lake.set_commit_message('gradebook', ?, extra_info => ?)", [message, info])


def roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Roll back the open transaction, if any."""
    with suppress(duckdb.Error):  # none is open: a failed commit ended it
        connection.execute("rollback")
