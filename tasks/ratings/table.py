"""The table `ratings`: insert new ratings, count and find stored ones."""

from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import open_database, query

# Identity of a rating of a question, without its file: the same rating from another path is the same rating.
RATING_KEY = ("output_id", "criterion_id", "rater", "level_id", "score", "notes", "rated_at")
QUARANTINE_KEY = ("source", "line", "reason", "row")


def drop_taken_back(marks: pa.Table) -> pa.Table:
    """Drop the marks of one file that a later mark retracts.

    marks: `RATING_SCHEMA` and `line`; score is null for a mark that does not apply. Returns the same columns, for each
    rater, output and criterion: only the latest mark if that one does not apply, else only the ratings.
    """
    if not marks.column("score").null_count:
        return marks
    with open_database() as connection:
        connection.register("marks", marks)
        return connection.execute(query("ratings/standing_marks")).to_arrow_table().cast(marks.schema)


def insert_ratings(connection: duckdb.DuckDBPyConnection, given: str) -> None:
    """Insert the rows of a relation that the table does not have yet, each once.

    given: relation with the columns of `RATING_SCHEMA` and `line`, in whose order rows are stored: of a rater's ratings
    the one stored later counts. So an undated rating is inserted again if another one was stored after it. A row
    without a score is inserted if it retracts a stored rating.
    """
    connection.execute("set threads = 1")  # more threads would change the order of lines
    connection.execute(f"insert into ratings by name select * exclude (line) from ({_new_rows(given)}) order by line")
    connection.execute("reset threads")


def count_new_ratings(connection: duckdb.DuckDBPyConnection, given: str) -> tuple[int, int]:
    """Number of ratings that `insert_ratings` would add, and of rows that retract one."""
    counted = f"select count(score), count(*) - count(score) from ({_new_rows(given)})"
    ((new_count, taken_back_count),) = connection.execute(counted).fetchall()
    return int(new_count), int(taken_back_count)


def _new_rows(given: str) -> str:
    """Query for the rows of a relation that must be inserted."""
    same = (f"kept.{name} is not distinct from given.{name}" for name in RATING_KEY)
    is_same = " and ".join([*same, "coalesce(kept.question_digest = given.question_digest, true)"])
    return query("ratings/new_ratings", given=given, is_same=is_same)


def count_new_refused(connection: duckdb.DuckDBPyConnection, given: str) -> int:
    """Number of refused rows that `insert_refused` would add."""
    keys = ", ".join(QUARANTINE_KEY)
    row = connection.execute(
        f"select count(*) from (select distinct {keys} from {given} "
        f"except select {keys} from quarantine where run_id is null)"
    ).fetchone()
    return int(row[0]) if row else 0


def insert_refused(connection: duckdb.DuckDBPyConnection, given: str) -> None:
    """Add refused rows to the quarantine, without a run; rows refused before are not added again."""
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
    """Number of ratings of each rater on each criterion."""
    return _rows(lake, query("ratings/rater_counts"), {})


def find_ratings(lake: Lake, name: str) -> list[dict[str, Any]]:
    """Ratings of an output, or of all outputs of a case. Raises `InputError` if there are none."""
    rows = _rows(lake, query("ratings/ratings_of"), {"name": name})
    if not rows:
        raise InputError(name, f"no rating of it in {lake.name}", "an output's or a case's id")
    return rows


def _rows(lake: Lake, select: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    with connect_up_to_date(lake) as connection:
        found: pa.Table = connection.execute(select, values).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
