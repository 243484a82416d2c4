"""Questions of a run to people, and the stored ratings that answer them.

A rating belongs to the text of a criterion: it counts in every run with this text, of any rubric, and in no other run.
The relation `asked_questions` has a run's questions; `asked_TABLE` the rows of a table that answer them.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.tables import rubric_questions
from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.sql import query, quoted

ANSWERS = ("ratings", "step_ratings", "claim_ratings", "adjudications", "step_adjudications")
_SCHEMA = pa.schema(
    [
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("output_id", pa.string()),  # null: asked of every output
        pa.field("question_digest", pa.string()),  # null: unknown, in a run of an earlier gradebook
        pa.field("level_ids", pa.list_(pa.string())),
    ]
)
_BODY = "select body from runs inner join rubrics using (rubric_id, rubric_version) where run_id = ?"
_OF_TABLES = (
    "select criterion_id from criteria inner join runs using (rubric_id, rubric_version) where run_id = ? "
    "order by criterion_id"
)
_OWN_QUESTIONS = """
union all by name
select output_id, criterion_id, question_digest, list_transform(levels, lambda level: level.id) as level_ids
from (from {own_criteria} union all by name select null::varchar as question_digest where false)
"""


def add_questions_of_run(connection: duckdb.DuckDBPyConnection, run_id: str, *tables: str) -> Rubric | None:
    """Make asked_questions of a run of the lake, and asked_TABLE of each table of `ANSWERS` that is named.

    Returns the run's rubric; None if this gradebook can't read it: its questions have no digests then, and ratings
    count by the criteria's ids.
    """
    rubric = None
    for (body,) in connection.execute(_BODY, [run_id]).fetchall():
        with suppress(RubricError):
            rubric = rubric_from_body(body)
    rows = (
        [{"criterion_id": name} for (name,) in connection.execute(_OF_TABLES, [run_id]).fetchall()]
        if rubric is None
        else rubric_questions(rubric)
    )
    _add(connection, rows, f"(from case_criteria where run_id = '{quoted(run_id)}')", tables)
    return rubric


def add_questions(
    connection: duckdb.DuckDBPyConnection, rubric: Rubric, own_criteria: str | None, *tables: str
) -> None:
    """Make the relations of `add_questions_of_run` for an unpublished run. own_criteria: its per-case criteria."""
    _add(connection, rubric_questions(rubric), own_criteria, tables)


def add_all_answers(connection: duckdb.DuckDBPyConnection, *tables: str) -> None:
    """Make asked_TABLE with every row of each table, whatever criterion text a row is about."""
    for table in tables:
        connection.execute(f"create or replace temp view asked_{table} as select *, rowid as line from {table}")


def _add(
    connection: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], own_criteria: str | None, tables: Iterable[str]
) -> None:
    connection.register("rubric_questions", pa.Table.from_pylist(rows, schema=_SCHEMA))
    own_questions = "" if own_criteria is None else _OWN_QUESTIONS.format(own_criteria=own_criteria)
    connection.execute(f"create or replace temp table asked_questions as from rubric_questions {own_questions}")
    connection.unregister("rubric_questions")
    for table in tables:
        with suppress(duckdb.CatalogException):  # at a version before the table
            relation = f"(select *, rowid as line from {table})"
            connection.execute(
                f"create or replace temp view asked_{table} as {query('rubric_store/answers', given=relation)}"
            )
