"""Runs of a lake, and the latest published run."""

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query


def latest_run(lake: Lake) -> str:
    """Id of the latest published run, of an evaluation if there is one. Raises `InputError` if there is none."""
    with connect(lake, read_only=True) as connection:
        select = (
            "select run_id from runs where status = 'published' "
            "order by trigger is not distinct from 'review', version desc limit 1"
        )
        rows = read_rows(connection, select)
    if not rows:
        raise InputError("run", f"no published run in {lake.name}", "one", "`gradebook evaluate` makes it")
    return str(rows[0]["run_id"])


def is_run(lake: Lake, name: str) -> bool:
    """Whether a run, published or not, has this id."""
    with connect(lake, read_only=True) as connection:
        return bool(connection.execute("select 1 from runs where run_id = ?", [name]).fetchall())


def refuse_unknown_run(lake: Lake, run_id: str, option: str) -> None:
    """Raise `InputError`, at an option, unless a published run has this id."""
    with connect(lake, read_only=True) as connection:
        read_published_run(connection, lake, run_id, option=option)


def list_runs(lake: Lake) -> tuple[Row, ...]:
    """All runs, newest first, in the order in which the lake recorded them, not by clock."""
    with connect(lake, read_only=True) as connection:
        return read_rows(connection, query("published/run_list"))


def is_weighted(lake: Lake, run_id: str) -> bool:
    """Whether the cases of a run were drawn by stratum, so that its means are weighted."""
    select = "select 1 from runs where run_id = ? and (settings ->> '$.stratify') is not null"
    with connect(lake, read_only=True) as connection:
        return bool(connection.execute(select, [run_id]).fetchall())
