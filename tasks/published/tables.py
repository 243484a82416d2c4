"""Tables of one published run."""

from enum import StrEnum

import pyarrow as pa

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import query

_ROWS = "select * exclude (run_id) from"


class RunTable(StrEnum):
    """Rows of one run, as a select with `$run_id`."""

    scores = f"{_ROWS} run_scores where run_id = $run_id order by mean desc nulls last, model, checkpoint"
    criteria = f"{_ROWS} criterion_scores where run_id = $run_id order by all"
    verdicts = f"{_ROWS} verdicts where run_id = $run_id order by output_id, criterion_id"
    outputs = query("published/outputs_of_run")


def read_table(lake: Lake, run_id: str, table: RunTable) -> pa.Table:
    """Rows of one table of a run; none for an unknown run."""
    with connect_up_to_date(lake) as connection:
        return connection.execute(str(table), {"run_id": run_id}).to_arrow_table()
