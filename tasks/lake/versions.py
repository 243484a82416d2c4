"""Versions of a lake: resolve a version from text, and list the log of versions."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query, quoted

_NUMBER = re.compile(r"\d{1,100}", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(?P<seconds>:\d\d(?P<fraction>\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
_RUN = "select status, version from runs where run_id = ?"
_LAST_BEFORE = "select max(snapshot_id) from ducklake_snapshots('lake') where snapshot_time < ?"
_FIRST = "select strftime(timezone('UTC', min(snapshot_time)), '%Y-%m-%d %H:%M:%S UTC') from ducklake_snapshots('lake')"


def find_lake_at(uri: str, data: str | None, at: str | None) -> Lake:
    """Lake of a URI (as `find_lake`) at the version that `--at` names.

    Raises `InputError` if the text names no version, `LakeError` if there is no such lake.
    """
    lake = find_lake(uri, data)
    return lake if at is None else replace(lake, at=find_version(lake, at))


def find_version(lake: Lake, text: str) -> int:
    """Resolve a version from its number, the id of a published run, or a time.

    A time selects the last version made by then: in UTC unless it has a zone, and to the end of the named day, minute
    or second. A number is not looked up: opening the lake checks it. Raises `InputError`.
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    with connect(lake, read_only=True) as connection:
        runs = connection.execute(_RUN, [text]).fetchall()
        if runs:
            return _version_of_run(text, *runs[0])
        if _TIME.fullmatch(text):
            return _version_by(connection, text)
    raise InputError(
        "--at",
        f"{text!r}",
        "a version, the id of a published run or a time, as 2026-11-01 or 2026-11-01T09:30",
        "`gradebook lake versions` lists them",
    )


def _version_of_run(run_id: str, status: str, version: int | None) -> int:
    if status != "published" or version is None:
        raise InputError("--at", f"run {run_id}, which is {status}", "a published run")
    return version


def _version_by(connection: duckdb.DuckDBPyConnection, text: str) -> int:
    ((version,),) = connection.execute(_LAST_BEFORE, [_end_of(text)]).fetchall()
    if version is None:
        ((first,),) = connection.execute(_FIRST).fetchall()
        raise InputError("--at", text, f"a time that is not before the first version, of {first}")
    return int(version)


def _end_of(text: str) -> datetime:
    """First instant after the day, minute, second or microsecond that a text names."""
    match = _TIME.fullmatch(text)
    length = timedelta(days=1)
    if match and match[1]:
        length = timedelta(minutes=1)
        if match["seconds"]:
            length = timedelta(microseconds=1) if match["fraction"] else timedelta(seconds=1)
    try:
        moment = datetime.fromisoformat(text)
        return (moment.replace(tzinfo=moment.tzinfo or UTC) + length).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError("--at", text, f"a time that there is ({error})") from None


MOST_VERSIONS = 1_000_000
_ADDED = """
select '{name}' as table_name, snapshot_id as version, count(*) as row_count
from ducklake_table_insertions('lake', 'main', '{name}', {low:d}, {high:d}) group by snapshot_id
"""


@dataclass(frozen=True, slots=True)
class Version:
    """Changes that one transaction made to the tables.

    kind: published (a run), ratings, failed (a run), tables, other; intermediate: running, judgments,
    report, empty; upkeep, which changes no row.
    run_id: None if it belongs to no single run. row_counts: rows added, by table, largest first.
    """

    version: int
    made_at: datetime
    kind: str
    message: str
    run_id: str | None
    row_counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class VersionLog:
    """Versions of a lake, newest first. older_count: versions beyond the limit; hidden_count: intermediate versions."""

    versions: tuple[Version, ...]
    older_count: int
    hidden_count: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def list_versions(lake: Lake, limit: int, *, is_all: bool = False) -> VersionLog:
    """List a lake's versions, newest first; intermediate ones only with `is_all`.

    limit: 1 to `MOST_VERSIONS`, else an `InputError`. Raises `LakeError` if there is no lake.
    """
    if not 1 <= limit <= MOST_VERSIONS:
        raise InputError("--limit", f"{limit:,}", f"1 to {MOST_VERSIONS:,}")
    with connect(lake, read_only=True) as connection:
        rows = read_rows(connection, query("lake/versions"), is_all=is_all, most_count=limit)
        ((all_count,),) = connection.execute("select count(*) from ducklake_snapshots('lake')").fetchall()
        counts = _count_added(connection, [row["version"] for row in rows])
    listed_count = rows[0]["listed_count"] if rows else 0
    versions = tuple(_version(row, counts.get(row["version"], {})) for row in rows)
    return VersionLog(versions, listed_count - len(rows), all_count - listed_count)


def _version(row: Row, row_counts: dict[str, int]) -> Version:
    made_at = row["made_at"].astimezone(UTC)  # DuckDB returns local time
    return Version(row["version"], made_at, row["kind"], row["message"], row["run_id"], row_counts)


def _count_added(connection: duckdb.DuckDBPyConnection, versions: Sequence[int]) -> dict[int, dict[str, int]]:
    """Rows that each version added, by table, largest first."""
    if not versions:
        return {}
    low, high = versions[-1], versions[0]
    parameters = {"first": low, "last": high}
    tables = [quoted(name) for (name,) in connection.execute(query("lake/changed_tables"), parameters).fetchall()]
    if not tables:
        return {}
    added = " union all ".join(_ADDED.format(name=name, low=low, high=high) for name in tables)
    counts: dict[int, dict[str, int]] = {}
    for row in read_rows(connection, f"from ({added}) order by row_count desc, table_name"):
        counts.setdefault(row["version"], {})[row["table_name"]] = row["row_count"]
    return counts
