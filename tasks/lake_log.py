"""The log of a lake: its versions, what made each, and how many rows it added to which tables."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb

from gradebook.rubrics.errors import InputError
from gradebook.tasks.lake import Lake, connect
from gradebook.tasks.requirements import Row, read_rows
from gradebook.tasks.sql_text import quoted

MOST_VERSIONS = 1_000_000

# A commit's message says what it was for (the callers of `commit` write it); another program may give none.
_VERSIONS = """
with published as (select run_id, version from runs where status = 'published'),

snapshots as (
    select
        snapshot_id as version,
        snapshot_time as made_at,
        coalesce(commit_message, replace(array_to_string(map_keys(changes), ', '), '_', ' ')) as message,
        try_cast(commit_extra_info as json) ->> 'run_id' as told_id,
        regexp_extract(message, '^(?:run (.+) (running|failed)|judgments of (.+))$', ['tried', 'status', 'judged'])
            as told
    from ducklake_snapshots('lake')
),

named as (
    select
        snapshots.* exclude (told_id, told),
        coalesce(published.run_id, told_id, nullif(told.tried || told.judged, '')) as run_id,
        case
            when published.run_id is not null then 'published'
            when told.status <> '' then told.status
            when told.judged <> '' then 'judgments'
            when starts_with(message, 'import ratings of ') then 'ratings'
            when message = 'make tables' then 'tables'
            when starts_with(message, 'compact ') then 'upkeep'
            when snapshots.version = 0 then 'empty'
            else 'other'
        end as kind
    from snapshots left join published on snapshots.version = published.version
),

final as (select *, kind in ('running', 'judgments', 'upkeep', 'empty') as is_of_the_way from named)

select * exclude (is_of_the_way), count(*) over () as listed_count
from final
where ? or not is_of_the_way
order by version desc
limit ?
"""
_TABLES = """
with changes as (
    select unnest(flatten(map_values(changes))) as changed
    from ducklake_snapshots('lake') where snapshot_id between ? and ?
)

select table_name from ducklake_table_info('lake') where table_id::varchar in (select changed from changes)
"""
_ADDED = """
select '{name}' as table_name, snapshot_id as version, count(*) as row_count
from ducklake_table_insertions('lake', 'main', '{name}', {low:d}, {high:d}) group by snapshot_id
"""


@dataclass(frozen=True, slots=True)
class Version:
    """What one transaction made of the tables.

    kind: published (a run), ratings, failed (a run), tables, other; on the way to those: running, judgments, empty;
    upkeep, which changes no row.
    run_id: None where it is of no one run. row_counts: the rows that it added, by table, the most first.
    """

    version: int
    made_at: datetime
    kind: str
    message: str
    run_id: str | None
    row_counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class VersionLog:
    """Versions of a lake, the newest first. older_count: those beyond the limit; hidden_count: those on the way."""

    versions: tuple[Version, ...]
    older_count: int
    hidden_count: int

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        return asdict(self)


def list_versions(lake: Lake, limit: int, *, is_all: bool = False) -> VersionLog:
    """The versions of a lake, the newest first; without those that a run makes on its way, unless `is_all`.

    limit: 1 to `MOST_VERSIONS`, else an `InputError`. Raises `LakeError` where there is no lake.
    """
    if not 1 <= limit <= MOST_VERSIONS:
        raise InputError(f"--limit: found {limit:,}, expected 1 to {MOST_VERSIONS:,}")
    with connect(lake, read_only=True) as connection:
        rows = read_rows(connection, _VERSIONS, is_all, limit)
        ((all_count,),) = connection.execute("select count(*) from ducklake_snapshots('lake')").fetchall()
        counts = _count_added(connection, [row["version"] for row in rows])
    listed_count = rows[0]["listed_count"] if rows else 0
    versions = tuple(_version(row, counts.get(row["version"], {})) for row in rows)
    return VersionLog(versions, listed_count - len(rows), all_count - listed_count)


def _version(row: Row, row_counts: dict[str, int]) -> Version:
    made_at = row["made_at"].astimezone(UTC)  # DuckDB gives the time of where the command runs
    return Version(row["version"], made_at, row["kind"], row["message"], row["run_id"], row_counts)


def _count_added(connection: duckdb.DuckDBPyConnection, versions: Sequence[int]) -> dict[int, dict[str, int]]:
    """How many rows each version added to which tables, the most first."""
    if not versions:
        return {}
    low, high = versions[-1], versions[0]
    tables = [quoted(name) for (name,) in connection.execute(_TABLES, [low, high]).fetchall()]
    if not tables:
        return {}
    added = " union all ".join(_ADDED.format(name=name, low=low, high=high) for name in tables)
    found: dict[int, dict[str, int]] = {}
    for row in read_rows(connection, f"from ({added}) order by row_count desc, table_name"):
        found.setdefault(row["version"], {})[row["table_name"]] = row["row_count"]
    return found
