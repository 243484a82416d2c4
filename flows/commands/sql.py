"""The command `gradebook sql`."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, AtOption, DataOption, LakeOption
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.tables import write_rows
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.user_queries import run_bounded_query


class Format(StrEnum):
    """Formats of `gradebook sql`."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def sql(  # noqa: PLR0913 - each is an option
    query: Annotated[
        str | None, typer.Argument(help="one read-only SQL statement; default: a shell, or on a pipe stdin")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="output format")] = Format.table,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write or replace; default: stdout")] = None,
    at: AtOption = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="maximum duration in seconds")] = 600.0,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="the same as --format json")] = False,
) -> None:
    """Query the evaluation tables in DuckDB's SQL, read only.

    \b
    gradebook sql "from latest_run_scores"
    gradebook sql "select run_id, criterion_id, mean from criterion_scores" \\
        --format csv
    gradebook sql "from output_scores" --at 12 --format parquet \\
        --out scores.parquet
    gradebook sql "select count(*) from ratings" --at 2026-11-01T09:30
    gradebook sql < question.sql
    gradebook sql
    """
    if as_json and form not in (Format.table, Format.json):
        raise InputError("--json", f"--format {form.value} as well", "one of the two")
    form = Format.json if as_json else form
    if form is Format.parquet and out is None:
        raise InputError("--out", "none", "a file for --format parquet")
    is_shell = query is None and sys.stdin.isatty() and sys.stdout.isatty()
    if is_shell and out is not None:
        raise InputError("--out", "no query", "one whose rows are written")
    found = read_lake(lake, data, at)

    def answer(statement: str) -> None:
        write_rows(run_bounded_query(found, statement, timeout), form.value, out)

    if is_shell:
        from gradebook.flows.commands.sql_shell import run_shell

        run_shell(answer)
    else:
        answer(sys.stdin.read() if query is None else query)
