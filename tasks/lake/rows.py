"""Query results as rows by column name, and the row of one run."""

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.sql import query
from gradebook.tasks.workspace.folder import refuse_run_ids

Row = dict[str, Any]
_RUN_COST = """
select case when count(*) = count(cost_usd + saved_usd) then sum(cost_usd + saved_usd) end
from stage_costs where run_id = ?
"""


def read_rows(
    connection: duckdb.DuckDBPyConnection, select: str, /, *parameters: object, **named_parameters: object
) -> tuple[Row, ...]:
    """Rows of a select by column name. parameters: for `?`; or named_parameters: for `$name`.

    Raises `LakeError` for an invalid run id.
    """
    cursor = connection.execute(select, named_parameters or list(parameters))
    names = [column[0] for column in cursor.description or ()]
    rows = cursor.fetchall()
    if "run_id" in names:
        index = names.index("run_id")
        refuse_run_ids({row[index] for row in rows})
    return tuple(dict(zip(names, row, strict=True)) for row in rows)


def insert_rows(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Row]) -> None:
    """Insert rows into a table of the lake. Missing columns are null; unknown keys are ignored.

    Null characters are removed from lists of texts.
    """
    types = {name: kind for name, kind, *_ in connection.execute(f"describe {table}").fetchall()}
    connection.register("new_rows", pa.table({name: [_storable(row.get(name)) for row in rows] for name in types}))
    casts = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in types.items())  # a column of nulls has no type
    connection.execute(f"insert into {table} by name select {casts} from new_rows")
    connection.unregister("new_rows")


def _storable(value: Any) -> Any:
    """Value without null characters in the texts of a list, which DuckLake can't inline."""
    if not isinstance(value, list | tuple):
        return value
    return [text.replace("\0", "") if isinstance(text, str) else text for text in value]


def make_table(connection: duckdb.DuckDBPyConnection, name: str, **parameters: object) -> None:
    """Make a temporary table of a select in sql/queries, named after its file; replaces an earlier one."""
    connection.execute(f"create or replace temp table {name.rpartition('/')[2]} as {query(name)}", parameters)


def read_run(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    run_id: str,
    select: str = "select * from runs where run_id = $run_id",
    option: str = "run",
) -> Row:
    """Row of a select about the run `$run_id`. Raises `InputError`, at `option`, if the lake lacks the run."""
    rows = read_rows(connection, select, run_id=run_id)
    if not rows:
        raise InputError(option, f"no {run_id!r} in {lake.name}", "one of those that `gradebook runs` lists")
    return rows[0]


def read_published_run(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    run_id: str,
    select: str = "select * from runs where run_id = $run_id",
    option: str = "run",
) -> Row:
    """Row of a select about a published run, with its status. Raises as `read_run`, and for other runs."""
    run = read_run(connection, lake, run_id, select, option)
    if run["status"] != "published":
        reason = f" ({run['reason']})" if run.get("reason") else ""
        raise InputError(f"{option}: {run_id} is {run['status']}{reason}, expected a published run")
    return run


def read_run_cost(connection: duckdb.DuckDBPyConnection, run_id: str) -> float | None:
    """Cost of a run's judgments, USD, including reused ones; None if a price is unknown, or nothing costs."""
    ((cost_usd,),) = connection.execute(_RUN_COST, [run_id]).fetchall()
    return cost_usd or None


def model_name(row: Row) -> str:
    """Model with its checkpoint, if any: `m @ 100`."""
    name: str = row["model"] if row["checkpoint"] is None else f"{row['model']} @ {row['checkpoint']}"
    return name


def pair_name(name_a: str, name_b: str) -> str:
    """Name of a pair of models: one name if equal, `m @ 100 → 200` for two checkpoints of one model."""
    of_a, of_b = name_a.rpartition(" @ "), name_b.rpartition(" @ ")
    if name_a != name_b and of_a[0] and of_a[0] == of_b[0]:
        return f"{name_a} → {of_b[2]}"
    return " and ".join(dict.fromkeys((name_a, name_b)))
