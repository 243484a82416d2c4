"""The table `ratings`: what is added to it, once, and what it holds."""

from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import query

# What makes two ratings the same one. The file is not among it: the same rating from another path is the same rating.
RATING_KEY = ("output_id", "criterion_id", "rater", "level_id", "score", "notes", "rated_at")
WHOSE = ("output_id", "criterion_id", "rater")  # of the rows that agree in these one counts
QUARANTINE_KEY = ("source", "line", "reason", "row")


def drop_taken_back(marks: pa.Table) -> pa.Table:
    """The marks of one file without those that a later one takes back.

    marks: `RATING_SCHEMA` and `line`; score is null where a mark does not apply. Returns the same columns: where the
    latest mark of a rater, output and criterion does not apply that one alone, else the ratings alone.
    """
    if not marks.column("score").null_count:
        return marks
    with duckdb.connect() as connection:
        connection.register("marks", marks)
        return connection.execute(query("ratings/standing_marks")).to_arrow_table().cast(marks.schema)


def insert_ratings(connection: duckdb.DuckDBPyConnection, given: str) -> None:
    """Add the rows of a relation that the table does not hold yet, each once.

    given: a relation with the columns of `RATING_SCHEMA` and `line`, by which the rows are stored: of a rater's
    ratings the one stored later counts. So one without a date is added again where another one came after it. A row
    without a score is added where the table holds a rating that it takes back.
    """
    connection.execute("set threads = 1")  # more would mix up the lines
    connection.execute(f"insert into ratings by name select * exclude (line) from ({_new_rows(given)}) order by line")
    connection.execute("reset threads")


def count_new_ratings(connection: duckdb.DuckDBPyConnection, given: str) -> tuple[int, int]:
    """How many ratings of a relation `insert_ratings` would add, and how many rows that take one back."""
    counted = f"select count(score), count(*) - count(score) from ({_new_rows(given)})"
    ((new_count, taken_back_count),) = connection.execute(counted).fetchall()
    return int(new_count), int(taken_back_count)


def _new_rows(given: str) -> str:
    """The query of the rows of a relation that are to be added."""
    is_same = " and ".join(f"kept.{name} is not distinct from given.{name}" for name in RATING_KEY)
    return query("ratings/new_ratings", given=given, is_same=is_same)


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
    return _rows(lake, query("ratings/rater_counts"), {})


def find_ratings(lake: Lake, name: str) -> list[dict[str, Any]]:
    """The ratings of an output, or of a case's outputs. Raises `InputError` where there is none."""
    rows = _rows(lake, query("ratings/ratings_of"), {"name": name})
    if not rows:
        raise InputError(name, f"no rating of it in {lake.name}", "an output's or a case's id")
    return rows


def _rows(lake: Lake, select: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    with connect_up_to_date(lake) as connection:
        found: pa.Table = connection.execute(select, values).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
