"""What the run cost, stage by stage: summed in SQL from its timings and from the ledger."""

import duckdb
import pyarrow as pa

from rubrics.judgments import JUDGMENT_SCHEMA
from tasks.aggregate import build_marts
from tasks.ledger import run_judgments
from tasks.runs import Run
from tasks.timings import read_timings


def add_cost_sources(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    """Make the sources of the mart `stage_costs`: the run's own row, its timings and the judgments it paid for."""
    rubric = run.rubric
    connection.execute(
        "create or replace table source_run as "
        "select ?::varchar as run_id, ?::varchar as rubric_id, ?::varchar as rubric_version, "
        "?::double as pass_threshold, ?::boolean as require_thresholds, ?::varchar as missing",
        [run.run_id, rubric.id, rubric.version, rubric.pass_threshold, rubric.require_thresholds, rubric.missing],
    )
    connection.register("source_timings", read_timings(run.folder))
    connection.register("no_judgments", JUDGMENT_SCHEMA.empty_table())
    connection.execute("create or replace table source_judgments as from no_judgments")
    for batch in run_judgments(run.lake, run.run_id):
        connection.register("judgments_batch", batch)
        connection.execute("insert into source_judgments from judgments_batch")


def run_costs(run: Run) -> pa.Table:
    """The rows of `stage_costs` as they stand now: once the marts are built, they took time too."""
    with duckdb.connect() as connection:
        add_cost_sources(connection, run)
        build_marts(connection, only="stage_costs")
        return connection.execute("from stage_costs").to_arrow_table()
