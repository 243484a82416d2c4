"""Classification of DuckDB's errors about a lake: retry or not, for how long, and the message for the user."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import duckdb

from gradebook.rubrics.model.errors import LakeError, LakeUnavailable
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.system.files import is_full

COMMIT_DEADLINE_S = timedelta(minutes=3).total_seconds()
BACK_SOON_S = 5.0  # how long a reader waits for a restarting server
BUSY_S = 5.0  # how long a statement waits for a writer of a SQLite catalog (DuckDB 1.5.5)
LOCKED_WORDS = "database is locked"
CONNECTION_FAILURE = "connection to server "  # libpq's words once it has resolved the server
REFUSAL = "failed: fatal:"  # PostgreSQL's own refusal in the same message: the server is reachable
CONFLICT_WORDS = (
    LOCKED_WORDS,
    "maximum retry count",
    "Failed to commit DuckLake transaction",
    "conflict",
    "could not serialize",
    "deadlock detected",
    "duplicate key value",
    "UNIQUE constraint failed",
    "already exists",
)
LOST_WORDS = (  # libpq, PostgreSQL and system messages of a server that is stopping, restarting or out of connections
    "server closed the connection",
    "terminating connection",
    "no connection to the server",
    "lost synchronization with server",
    "could not receive data from server",
    "could not send data to server",
    "connection reset by peer",
    "connection has been closed",
    "broken pipe",
    "the database system is",
    'failed to execute query "rollback"',
    "too many clients",
    "remaining connection slots",
    "temporary failure in name resolution",
)
BROKEN_FILE_WORDS = ("No magic bytes", "too small to be a Parquet file", "Cannot open file", "Invalid thrift", "footer")
_PARQUET = re.compile(r"[^\s'\"]+\.parquet")
RESTORE = "restore the file from a backup of the lake's folder; nothing else holds its rows"
READ_ONLY_WORDS = ("readonly database", "read-only transaction", "permission denied for")


def is_lost(error: Exception) -> bool:
    """Whether the catalog's server is gone or unreachable; the last statement may still have reached it."""
    text = str(error).lower()
    is_unanswered = CONNECTION_FAILURE in text and REFUSAL not in text
    return is_unanswered or any(word in text for word in LOST_WORDS)


def server_fault(lake: Lake, error: Exception) -> LakeUnavailable | None:
    """Translate a DuckDB error into `LakeUnavailable` if the catalog's server is down; None for other errors."""
    if lake.catalog == "sqlite" or not is_lost(error):
        return None
    _, failure, message = str(error).rpartition(CONNECTION_FAILURE)
    reason = f": {CONNECTION_FAILURE}{message.splitlines()[0]}" if failure else ""
    return LakeUnavailable(f"{lake.name}: its server does not answer{reason}; run the same command again once it does")


def locked_fault(lake: Lake, waited_s: float = COMMIT_DEADLINE_S) -> LakeUnavailable:
    """Error for a catalog that other processes kept locked for `waited_s` seconds."""
    return LakeUnavailable(
        f"{lake.name}: the catalog stayed locked for {waited_s:.0f} s; run the same command again once whoever writes "
        "into it is done"
    )


def reader_fault(lake: Lake, error: Exception) -> LakeUnavailable | None:
    """Error for a read that failed only temporarily (locked catalog, lost server); None for other errors."""
    return locked_fault(lake, BUSY_S) if LOCKED_WORDS in str(error) else server_fault(lake, error)


@contextmanager
def translate_lost_connection(lake: Lake, *, read_only: bool) -> Iterator[None]:
    """Raise `LakeUnavailable` if the catalog's server goes away during the block.

    read_only: translate a locked catalog too; a writing transaction is retried instead.
    """
    try:
        yield
    except duckdb.Error as error:
        fault = reader_fault(lake, error) if read_only else server_fault(lake, error)
        if fault is None:
            raise
        raise fault from None  # libpq's text may contain the password


@contextmanager
def translate_broken_files() -> Iterator[None]:
    """Raise `LakeError` if a Parquet file that the catalog names is gone, truncated or no Parquet file."""
    try:
        yield
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        if any(word in reason for word in BROKEN_FILE_WORDS) and (path := _PARQUET.search(reason)):
            raise LakeError(f"{path[0]}: can't be read: {reason}; {RESTORE}") from error
        raise


def is_read_only(error: Exception) -> bool:
    """Whether the error means that the catalog is read-only."""
    return any(word in str(error).lower() for word in READ_ONLY_WORDS)


class NoLakeThere(LakeError):
    """No catalog file, or a database without a lake in it."""

    def __str__(self) -> str:
        return f"{self.place}: found no lake there, expected one; `gradebook evaluate` or `gradebook demo` makes it"


def is_conflict(error: duckdb.Error) -> bool:
    """Whether another writer committed first, so that a retry of the transaction may succeed."""
    return not is_full(error) and any(word.lower() in str(error).lower() for word in CONFLICT_WORDS)


def opening_fault(lake: Lake, error: duckdb.Error, at: int | None) -> str:
    """Reason why a lake (at version `at`) can't be opened, in one sentence without the connection string."""
    if at is not None and any(word in str(error).lower() for word in ("snapshot", "failed to cast value")):
        return f"--at: found {at}, expected a version of the lake; `gradebook lake versions` lists them"
    return f"{lake.name}: the lake can't be opened: {_reason(lake, str(error))}"


def _reason(lake: Lake, text: str) -> str:
    """DuckDB's reason on one line. libpq quotes unparsable pieces of a connection string, possibly of its password."""
    if lake.catalog == "sqlite":
        return text.splitlines()[0]
    _, failure, reason = text.rpartition(CONNECTION_FAILURE)
    if failure:
        return CONNECTION_FAILURE + reason.splitlines()[0]
    if "Unable to connect" in text:
        return "its connection string can't be read, or its host is not known"
    return text.replace(lake.address, "...").splitlines()[0]
