"""The table `ratings`: what is added to it, once, and what it holds."""

from typing import Any

import duckdb
import pyarrow as pa

from rubrics.errors import InputError
from tasks.lake import Lake, connect, upgrade_lake

# What makes two ratings the same one. The file is not among it: the same rating from another path is the same rating.
RATING_KEY = ("output_id", "criterion_id", "rater", "level_id", "score", "notes", "rated_at")
QUARANTINE_KEY = ("source", "line", "reason", "row")

_COUNTS = """
select
    rater,
    criterion_id,
    count(*) as rating_count,
    count(distinct output_id) as output_count,
    avg(score) as mean_score,
    max(rated_at) as last_rated_at
from ratings
group by rater, criterion_id
order by rater, criterion_id
"""
_OF_OUTPUT = """
select o.case_id, o.model, o.checkpoint, o.sample_index, r.*
from ratings as r left join outputs as o using (output_id)
where r.output_id = $name or o.case_id = $name
order by o.case_id, o.model, o.checkpoint, o.sample_index, r.output_id, r.criterion_id, r.rater, r.rated_at
"""


def insert_ratings(connection: duckdb.DuckDBPyConnection, given: str) -> int:
    """Add the ratings of a relation that the table does not hold yet, each once; returns how many those are.

    given: a relation with the columns of `RATING_SCHEMA` and `line`, by which the rows are stored: of a rater's
    ratings the one stored later counts.
    """
    is_same = " and ".join(f"kept.{name} is not distinct from given.{name}" for name in RATING_KEY)
    given_key = ", ".join(f"given.{name}" for name in RATING_KEY)
    connection.execute("set threads = 1")  # more would mix up the lines
    row = connection.execute(
        f"""
        insert into ratings by name
        select given.* exclude (line)
        from (from {given}) as given anti join ratings as kept on {is_same}
        qualify row_number() over (partition by {given_key} order by given.line desc) = 1
        order by given.line
        """
    ).fetchone()
    connection.execute("reset threads")
    return int(row[0]) if row else 0


def count_new_ratings(connection: duckdb.DuckDBPyConnection, given: str) -> int:
    """How many ratings of a relation `insert_ratings` would add."""
    keys = ", ".join(RATING_KEY)
    row = connection.execute(
        f"select count(*) from (select distinct {keys} from {given} except select {keys} from ratings)"
    ).fetchone()
    return int(row[0]) if row else 0


def count_new_refused(connection: duckdb.DuckDBPyConnection, given: str) -> int:
    """How many refused rows of a relation `insert_refused` would add."""
    keys = ", ".join(QUARANTINE_KEY)
    row = connection.execute(
        f"select count(*) from (select distinct {keys} from {given} "
        f"except select {keys} from quarantine where run_id is null)"
    ).fetchone()
    return int(row[0]) if row else 0


def insert_refused(connection: duckdb.DuckDBPyConnection, given: str) -> None:
    """Add refused rows to the quarantine, under no run; what a file was refused for before is not added again."""
    is_same = " and ".join(f"kept.{name} is not distinct from given.{name}" for name in QUARANTINE_KEY)
    connection.execute(
        f"""
        insert into quarantine by name
        select distinct given.* from (from {given}) as given
        anti join (from quarantine where run_id is null) as kept on {is_same}
        order by given.line
        """
    )


def count_ratings(lake: Lake) -> list[dict[str, Any]]:
    """The ratings of each rater on each criterion, counted."""
    return _rows(lake, _COUNTS, {})


def find_ratings(lake: Lake, name: str) -> list[dict[str, Any]]:
    """The ratings of an output, or of a case's outputs. Raises `InputError` where there is none."""
    rows = _rows(lake, _OF_OUTPUT, {"name": name})
    if not rows:
        raise InputError(f"{name}: found no rating of it in {lake.name}, expected an output's or a case's id")
    return rows


def _rows(lake: Lake, query: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    upgrade_lake(lake)
    with connect(lake, read_only=True) as connection:
        found: pa.Table = connection.execute(query, values or None).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
