"""The commands `gradebook sql`, with its interactive shell, and `gradebook lake tables`: tables and views, and columns.

The shell reads statements, a line or several each, until `.quit`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    AtOption,
    DataOption,
    JsonOption,
    LakeOption,
    complete_table,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.tables import write_rows
from gradebook.flows.display.terminal import plain, say, show_rows, stderr, stdout
from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.tasks.lake.attaching import attach_lines
from gradebook.tasks.lake.schema import find_table, list_tables
from gradebook.tasks.lake.user_queries import run_bounded_query
from gradebook.tasks.lake.versions import find_lake_at
from gradebook.tasks.system.files import write_text


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
    attach: Annotated[
        bool, typer.Option("--attach", help="give the statements that open the lake in plain DuckDB, offline")
    ] = False,
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
    gradebook sql --attach --out open.sql
    gradebook sql
    """
    if attach:
        if query is not None:
            raise InputError("--attach", "a query beside it", "--attach without one: it gives statements")
        _write_statements(attach_lines(find_lake_at(lake, data, at)) + "\n", out)
        return
    if as_json and form not in (Format.table, Format.json):
        raise InputError("--json", f"--format {form.value} as well", "one of the two")
    form = Format.json if as_json else form
    if form is Format.parquet and out is None:
        raise InputError("--out", "none", "a file for --format parquet")
    is_shell = query is None and sys.stdin.isatty() and sys.stdout.isatty()
    if is_shell and out is not None:
        raise InputError("--out", "no query", "one whose rows are written")
    found_lake = read_lake(lake, data, at)

    def answer(statement: str) -> None:
        write_rows(run_bounded_query(found_lake, statement, timeout), form.value, out)

    if is_shell:
        run_shell(answer)
    else:
        answer(sys.stdin.read() if query is None else query)


def _write_statements(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    try:
        write_text(out, text)
    except OSError as error:
        raise InputError("--out", f"can't write {out}: {error.strerror or error}") from error


def tables(
    name: Annotated[
        str | None, typer.Argument(help="a table, mart or view; default: list them all", autocompletion=complete_table)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the tables, marts and views of a lake, or show the columns of one.

    Every lake has the same ones, so none has to exist yet. Tables have what was read and judged, marts the scores of
    each published run, views what is computed from them on request.

    \b
    gradebook lake tables
    gradebook lake tables run_scores
    gradebook lake tables verdicts --json
    """
    if as_json:
        print_json(asdict(find_table(name)) if name else {"tables": [asdict(table) for table in list_tables()]})
    elif name:
        show_columns(name)
    else:
        show_tables()


def show_tables() -> None:
    """Print each table, mart and view with its kind and one line."""
    order = ("mart", "view", "table")  # the scores first
    listed = sorted(list_tables(), key=lambda table: order.index(table.kind))
    show_rows(
        ("name", "kind", "what it has"), ((table.name, table.kind, table.line) for table in listed), is_whole=True
    )


def show_columns(name: str) -> None:
    """Print the description of a table, mart or view, and its columns."""
    table = find_table(name)
    say(f"{table.name}, a {table.kind}: {table.description}")
    stdout.print()
    rows = ((column.name, column.type.lower(), column.meaning) for column in table.columns)
    show_rows(("column", "type", "meaning"), rows, is_whole=True)


PROMPT, CONTINUED = "gradebook> ", "      ...> "
MOST_HISTORY = 1000
HELP = """\
A statement ends with ; and may take several lines. Ctrl-C drops it, or ends a running query.
.tables [NAME]  lists the tables, marts and views, or the columns of one
.help           shows this
.quit           leaves, as Ctrl-D does"""


def run_shell(answer: Callable[[str], None]) -> None:
    """Read statements from the terminal and answer each; after a fault, print it and continue."""
    stderr.print("a statement ends with ; and .help lists the commands of the shell", markup=False)
    with _history():
        for statement in _statements():
            try:
                if statement.startswith("."):
                    _run_dot_command(statement)
                else:
                    answer(statement)
            except GradebookError as error:
                stderr.print("\n".join(map(plain, f"gradebook: {error}".splitlines())), markup=False)
            except KeyboardInterrupt:
                stderr.print("interrupted")


def _statements() -> Iterator[str]:
    """Yield statements and dot commands until `.quit` or the end of the input."""
    lines: list[str] = []
    while True:
        try:
            line = input(CONTINUED if lines else PROMPT)
        except KeyboardInterrupt:
            lines = []
            stderr.print()
            continue
        except EOFError:
            stderr.print()
            return
        word = line.strip()
        if not lines and word in (".quit", ".exit"):
            return
        if not lines and (not word or word.startswith(".")):
            yield from [word] if word else []
            continue
        lines.append(line)
        if word.endswith(";"):
            yield "\n".join(lines)
            lines = []


def _run_dot_command(command: str) -> None:
    word, _, name = command.partition(" ")
    if word == ".tables" and name.strip():
        show_columns(name.strip().rstrip(";"))
    elif word == ".tables":
        show_tables()
    elif word == ".help":
        stderr.print(HELP, markup=False)
    else:
        raise InputError("sql", repr(word), "a statement, .tables, .help or .quit")


@contextmanager
def _history() -> Iterator[None]:
    """History for the arrow keys, also of earlier shells, if there are readline and a home folder."""
    try:
        import readline
    except ImportError:
        yield
        return
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = home / "gradebook" / "sql_history"
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_history_length(MOST_HISTORY)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)  # a query may contain private values
            readline.write_history_file(file)
