"""The table `step_ratings`: people's marks of the steps of agents."""

import duckdb
import pyarrow as pa

from gradebook.tasks.lake.sql import query

GIVEN_STEPS_SCHEMA = pa.schema(  # the table has `step_index` in place of `step`
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("output_id", "criterion_id", "rater", "step")),
        pa.field("label", pa.string()),  # null, without a score: the rater took an earlier mark back
        pa.field("score", pa.float64()),
        *(pa.field(name, pa.string()) for name in ("error_type", "error_subtype", "severity", "rationale")),
        pa.field("rated_at", pa.timestamp("us", tz="UTC")),
        pa.field("source", pa.string(), nullable=False),
        pa.field("question_digest", pa.string()),
    ]
)


def insert_step_ratings(connection: duckdb.DuckDBPyConnection, given: pa.Table) -> None:
    """Add the marks that the table does not have yet. given: as for `new_step_ratings`."""
    connection.register("found_step_ratings", new_step_ratings(connection, given))
    connection.execute("insert into step_ratings by name from found_step_ratings")
    connection.unregister("found_step_ratings")


def new_step_ratings(connection: duckdb.DuckDBPyConnection, given: pa.Table) -> pa.Table:
    """Marks that the table does not have yet, from whatever file.

    given: with the column `step` in place of `step_index`: the number of a step, or the id of its span.
    """
    connection.register("given_steps", given)
    found: pa.Table = connection.execute(query("ratings/new_step_ratings")).to_arrow_table()
    connection.unregister("given_steps")
    return found
