"""Query results as rows by column name, and the row of one run."""

from typing import Any

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake

Row = dict[str, Any]


def read_rows(connection: duckdb.DuckDBPyConnection, query: str, *parameters: object) -> tuple[Row, ...]:
    """Rows of a query, as dictionaries by column name."""
    found = connection.execute(query, list(parameters))
    names = [column[0] for column in found.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())


def read_run(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    run_id: str,
    query: str = "select * from runs where run_id = ?",
    option: str = "run",
) -> Row:
    """Single row of a query about a run. option: CLI option named in errors. Raises `InputError` for an unknown run."""
    found = read_rows(connection, query, run_id)
    if not found:
        expected = "expected one of those that `gradebook runs` lists"
        raise InputError(f"{option}: found no {run_id!r} in {lake.name}, {expected}")
    return found[0]


def read_published_run(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    run_id: str,
    query: str = "select * from runs where run_id = ?",
    option: str = "run",
) -> Row:
    """Single row, including its status, about a published run. Raises as `read_run`, and for unpublished runs."""
    run = read_run(connection, lake, run_id, query, option)
    if run["status"] != "published":
        reason = f" ({run['reason']})" if run.get("reason") else ""
        raise InputError(f"{option}: {run_id} is {run['status']}{reason}, expected a published run")
    return run


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
