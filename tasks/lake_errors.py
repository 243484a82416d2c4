"""What DuckDB says of a lake, read: whether and how long to try again, and why it can't be opened, for people."""

from datetime import timedelta
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from tasks.lake import Lake

COMMIT_DEADLINE_S = timedelta(minutes=3).total_seconds()
CONNECTION_FAILURE = "connection to server "  # libpq's words where it knew whom to ask
CONFLICT_WORDS = (
    "database is locked",
    "maximum retry count",
    "Failed to commit DuckLake transaction",
    "conflict",
    "could not serialize",
    "deadlock detected",
    "duplicate key value",
    "UNIQUE constraint failed",
    "already exists",
)


def is_conflict(error: duckdb.Error) -> bool:
    """Whether another writer came first, so that the same transaction may go through the next time."""
    return any(word.lower() in str(error).lower() for word in CONFLICT_WORDS)


def opening_fault(lake: "Lake", error: duckdb.Error, at: int | None) -> str:
    """Why a lake can't be opened, at a version where one was wanted, in one sentence without the connection string."""
    if at is not None and any(word in str(error).lower() for word in ("snapshot", "failed to cast value")):
        return f"--at: found {at}, expected a version of the lake; `gradebook versions` lists them"
    return f"{lake.name}: the lake can't be opened: {_reason(lake, str(error))}"


def _reason(lake: "Lake", text: str) -> str:
    """DuckDB's reason on one line. libpq quotes pieces of a string that it can't read: they may be of a password."""
    if lake.catalog == "sqlite":
        return text.splitlines()[0]
    _, found, told = text.rpartition(CONNECTION_FAILURE)
    if found:
        return CONNECTION_FAILURE + told.splitlines()[0]
    if "Unable to connect" in text:
        return "its connection string can't be read, or its host is not known"
    return text.replace(lake.address, "...").splitlines()[0]
