"""TODO."""

import sys
from collections.abc import Container, Iterable
from datetime import datetime

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

people = Console(stderr=True, width=None if sys.stderr.isatty() else 120, highlight=False)


def show_rows(headings: Iterable[str], rows: Iterable[Iterable[object]], bold: Container[int] = ()) -> None:
    """Print rows as a table on stdout. bold: the numbers of the rows that stand out in a terminal, from 0."""
    table = Table(*(escape(plain(heading)) for heading in headings), box=SIMPLE_HEAD, pad_edge=False)
    for index, row in enumerate(rows):
        cells = (escape("" if value is None else plain(value)) for value in row)
        table.add_row(*cells, style="bold" if index in bold else None)
    # A pipe has no width: rich would cut every cell at 80 columns.
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 10_000).print(table)


def table_titled(title: str, *left: str, right: Iterable[str] = ()) -> Table:
    """An empty table under a title; left, right: the headings of its columns of text, and of figures behind them."""
    table = Table(*left, title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def plain(value: object) -> str:
    """A value on one line of a terminal: control characters, which could steer it, are shown as what they are."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if isinstance(value, datetime):
        text = f"{value:%Y-%m-%d %H:%M:%S}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
