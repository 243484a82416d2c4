"""The command `gradebook sql`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, LakeOption
from gradebook.flows.display.tables import write_rows
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.lake.versions import find_lake_at


class Format(StrEnum):
    """Formats of `gradebook sql`."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def sql(
    query: Annotated[str, typer.Argument(help="one read-only SQL statement")],
    form: Annotated[Format, typer.Option("--format", help="output format")] = Format.table,
    out: Annotated[Path | None, typer.Option("--out", help="file to write; default: stdout")] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Query the evaluation tables in DuckDB's SQL, read only.

    \b
    gradebook sql "select * from run_scores"
    gradebook sql "select criterion_id, avg(mean) from criterion_scores group by all" --format csv
    gradebook sql "from output_scores" --at 12 --format parquet --out scores.parquet
    gradebook sql "select count(*) from ratings" --at 2026-11-01T09:30
    """
    if form is Format.parquet and out is None:
        raise InputError("--out: found none, expected a file for --format parquet")
    write_rows(run_query(find_lake_at(lake, data, at), query), form.value, out)
