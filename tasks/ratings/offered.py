"""Ratings under another text of a criterion: offered to a run, and copied into it."""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date
from gradebook.tasks.lake.rows import make_table, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.rubric_store.questions import add_questions_of_run
from gradebook.tasks.system.shell import shell_line

MOST_NAMES = 30  # of criteria in a message
_KNOWN = "select distinct criterion_id from asked_questions order by criterion_id"
_TAKE = (
    "insert into ratings by name select * exclude (asked_digest) replace (asked_digest as question_digest) "
    "from offered_ratings where $criterion_id is null or criterion_id = $criterion_id"
)


@dataclass(frozen=True, slots=True)
class TakenRatings:
    """Ratings copied from another text of their criteria. counts: by criterion."""

    run_id: str
    counts: dict[str, int]
    version: int | None


def offered_note(connection: duckdb.DuckDBPyConnection, run_id: str, lake_words: Iterable[str] = ()) -> str | None:
    """Sentence on ratings that people gave on the run's outputs under another text of a criterion; None without any.

    lake_words: options that name the lake.
    """
    add_questions_of_run(connection, run_id, "ratings")
    counts = _offered_counts(connection, run_id, None)
    if not counts:
        return None
    ratings, names = counted(sum(counts.values()), "rating"), ", ".join(counts)
    command = shell_line(("gradebook", "people", "ratings", "take", run_id, *lake_words))
    return f"{ratings} of {names} under another text of the criterion do not count in this run: `{command}` takes them"


def find_offered(lake: Lake, run_id: str) -> str | None:
    """Sentence of `offered_note`, from a lake."""
    with connect_up_to_date(lake) as connection:
        return offered_note(connection, run_id, lake.words())


def take_ratings(lake: Lake, run_id: str, criterion_id: str | None = None, *, is_dry: bool = False) -> TakenRatings:
    """Add a copy of each offered rating under the run's text of its criterion, with its marks of steps and claims.

    The rating under the other text remains. Raises `InputError` for an unknown run or criterion.
    """
    with connect_up_to_date(lake) as connection:
        read_published_run(connection, lake, run_id)
        add_questions_of_run(connection, run_id, "ratings")
        criterion_ids = [name for (name,) in connection.execute(_KNOWN).fetchall()]
        if criterion_id is not None and criterion_id not in criterion_ids:
            raise InputError("--criterion", f"{criterion_id!r}", f"one of {', '.join(criterion_ids[:MOST_NAMES])}")
        counts = _offered_counts(connection, run_id, criterion_id)
    if is_dry or not counts:
        return TakenRatings(run_id, counts, None)

    def insert(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        add_questions_of_run(connection, run_id, "ratings")
        make_table(connection, "ratings/offered_ratings", run_id=run_id)
        for table in ("step_ratings", "claim_ratings"):
            marks = query("ratings/offered_marks", marks=table)
            connection.execute(f"insert into {table} by name {marks}", {"criterion_id": criterion_id})
        connection.execute(_TAKE, {"criterion_id": criterion_id})

    return TakenRatings(run_id, counts, commit(lake, f"ratings taken for the run {run_id}", insert))


def _offered_counts(connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None) -> dict[str, int]:
    make_table(connection, "ratings/offered_ratings", run_id=run_id)
    rows = read_rows(
        connection,
        "select criterion_id, count(*) as rating_count from offered_ratings "
        "where $criterion_id is null or criterion_id = $criterion_id group by criterion_id order by criterion_id",
        criterion_id=criterion_id,
    )
    return {row["criterion_id"]: row["rating_count"] for row in rows}
