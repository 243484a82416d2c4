"""`gradebook sql`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, LakeOption
from gradebook.rubrics.model.errors import InputError


class Format(StrEnum):
    """How `gradebook sql` writes rows."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def sql(
    query: Annotated[str, typer.Argument(help="one statement that reads")],
    form: Annotated[Format, typer.Option("--format", help="how to write the rows")] = Format.table,
    out: Annotated[Path | None, typer.Option("--out", help="write to this file; default: stdout")] = None,
    at: AtOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Ask the evaluation tables in SQL (DuckDB's), read only.

    \b
    gradebook sql "select * from run_scores"
    gradebook sql "select criterion_id, avg(mean) from criterion_scores group by all" --format csv
    gradebook sql "from output_scores" --at 12 --format parquet --out scores.parquet
    gradebook sql "select count(*) from ratings" --at 2026-11-01T09:30
    """
    from gradebook.flows.display.tables import write_rows
    from gradebook.tasks.lake.user_queries import run_query
    from gradebook.tasks.lake.versions import find_lake_at

    if form is Format.parquet and out is None:
        raise InputError("--out: found none, expected a file for --format parquet")
    write_rows(run_query(find_lake_at(lake, data, at), query), form.value, out)
