"""The command `gradebook tables`: the tables, marts and views of a lake, and their columns."""

from dataclasses import asdict
from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_table
from gradebook.flows.commands.options import JsonOption, print_json
from gradebook.flows.display.terminal import people, say, show_rows
from gradebook.tasks.lake.table_list import find_table, list_tables


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
    gradebook tables
    gradebook tables run_scores
    gradebook tables verdicts --json
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
    found = sorted(list_tables(), key=lambda each: order.index(each.kind))
    show_rows(("name", "kind", "what it has"), ((each.name, each.kind, each.line) for each in found), is_whole=True)


def show_columns(name: str) -> None:
    """Print the description of a table, mart or view, and its columns."""
    found = find_table(name)
    say(f"{found.name}, a {found.kind}: {found.description}")
    people.print()
    rows = ((each.name, each.type.lower(), each.meaning) for each in found.columns)
    show_rows(("column", "type", "meaning"), rows, is_whole=True)
