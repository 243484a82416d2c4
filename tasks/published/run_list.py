"""Runs of a lake, and the one published last."""

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, read_rows


def latest_run(lake: Lake) -> str:
    """Id of the run published last. Raises `InputError` if there is none."""
    with connect(lake, read_only=True) as connection:
        rows = read_rows(connection, "select run_id from runs where status = 'published' order by version desc limit 1")
    if not rows:
        raise InputError("run", f"no published run in {lake.name}", "one", "`gradebook evaluate` makes it")
    return str(rows[0]["run_id"])


def list_runs(lake: Lake) -> tuple[Row, ...]:
    """All runs, newest first, in the order the lake recorded them, whatever the clocks were."""
    with connect(lake, read_only=True) as connection:
        return read_rows(
            connection,
            "select run_id, status, created_at, rubric_id, rubric_version, judge, dataset, output_count, version, "
            "cost_usd, reason from runs order by rowid desc",
        )
