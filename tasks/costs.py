"""What the run cost, stage by stage: summed in SQL from its timings and from the ledger."""

import duckdb
import pyarrow as pa

from gradebook.tasks.aggregate import build_marts
from gradebook.tasks.criteria import add_criteria_sources
from gradebook.tasks.lake import Lake, connect
from gradebook.tasks.runs import Run
from gradebook.tasks.timings import read_timings


def add_cost_sources(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    """Make the sources of the mart `stage_costs`: the run's timings and the judgments it paid for."""
    connection.register("source_timings", read_timings(run.folder))
    connection.register("source_judgments", paid_judgments(run.lake, run.run_id))


def paid_judgments(lake: Lake, run_id: str) -> pa.Table:
    """What the marts read of the judgments that a run paid for: no texts."""
    query = (
        "select output_id, criterion_id, prompt_tokens, cached_tokens, completion_tokens, cost_usd, attempts "
        "from judgments where run_id = ?"
    )
    with connect(lake, read_only=True) as connection:
        return connection.execute(query, [run_id]).to_arrow_table()


def run_costs(run: Run) -> pa.Table:
    """The rows of `stage_costs` as they stand now: once the marts are built, they took time too."""
    with duckdb.connect() as connection:
        add_criteria_sources(connection, run.folder, run.rubric)
        add_cost_sources(connection, run)
        build_marts(connection, only="stage_costs")
        return connection.execute("from stage_costs").to_arrow_table()
