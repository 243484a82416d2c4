"""The two consoles, tables that fit them, and text made safe for a terminal."""

import json
import os
import re
import sys
from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, ConsoleDimensions
from rich.markup import escape

from gradebook.flows.display.fitted_table import FittedTable
from gradebook.flows.display.wrapping import filled
from gradebook.rubrics.text.tables import Table, table_of

NO_WIDTH = 1_000_000
_NO_VALUE = ("–", "null", "")
_NUMBER = re.compile(r"[-+<>≤]*\$?\d[\d,]*(\.\d+)?(e[-+]\d+)?%?")  # a column of these alone goes to the right


class _Console(Console):
    """Console as wide as its terminal. A pipe and a file have no width, so nothing is cut or wrapped there.

    is_wide: as if the terminal had no width either.
    """

    is_wide = False

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        found = super().size
        return found if self.file.isatty() and not self.is_wide else ConsoleDimensions(NO_WIDTH, found.height)

    @property  # type: ignore[misc]
    def width(self) -> int:
        return self.size.width

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print as rich does, but break a line only between words, and never a command in backticks.

        soft_wrap: leave lines as they are.
        """
        if soft_wrap or self.width == NO_WIDTH or len(objects) != 1 or not isinstance(objects[0], str):
            super().print(*objects, soft_wrap=soft_wrap, **options)
            return
        text = self.render_str(objects[0], markup=options.get("markup"), highlight=options.get("highlight"))
        super().print(filled(text, self.width), soft_wrap=True, **options)

    def on_broken_pipe(self) -> None:
        """Go on without output: `| head` changes no exit code."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def _for_people() -> _Console:
    return _Console(highlight=False)


def _for_notes() -> _Console:
    return _Console(stderr=True, highlight=False)


people = _for_people()  # stdout: what a command was asked for, unless as JSON
notes = _for_notes()  # stderr: progress, and remarks on the command itself


def show_wide(is_wanted: bool = True) -> None:
    """Show all columns and whole cells of tables, whatever the terminal's width."""
    people.is_wide = is_wanted


def filled_columns(
    headings: Iterable[str], rows: Sequence[Sequence[object]], kept: int = 0
) -> tuple[list[str], list[list[object]]]:
    """Headings and rows for `show_rows`, without columns in which no row has a value. kept: first columns that stay."""
    named = [*enumerate(headings)]
    shown = [place for place, _ in named if place < kept or any(row[place] not in (None, "") for row in rows)]
    return [named[place][1] for place in shown], [[row[place] for place in shown] for row in rows]


def show(table: Table, bold: Container[int] = (), *, is_whole: bool = False) -> None:
    """Print a table on stdout, columns of numbers alone to the right; the first cell of flagged rows is red.

    bold: indexes of the rows to print in bold, from 0. is_whole: no sentence is shortened.
    """
    drawn = FittedTable(*(escape(plain(column.heading)) for column in table.columns), title=_cell(table.caption))
    drawn.is_whole = is_whole
    for place, (column, kind) in enumerate(zip(drawn.columns, table.columns, strict=True)):
        cells = [row[place] for row in table.rows]
        if kind.is_number or (cells and all(cell in _NO_VALUE or _NUMBER.fullmatch(cell) for cell in cells)):
            column.justify = "right"
    for index, row in enumerate(table.rows):
        first, *others = map(_cell, row)
        first = f"[red]{first}[/]" if index in table.flagged else first
        drawn.add_row(first, *others, style="bold" if index in bold else None)
    people.print(drawn)


def show_rows(
    headings: Iterable[str],
    rows: Iterable[Iterable[object]],
    bold: Container[int] = (),
    null: str = "–",
    *,
    is_whole: bool = False,
) -> None:
    """Print rows of values as a table without a title. null: text for None."""
    lines = ([null if value is None else plain(value) for value in row] for row in rows)
    show(table_of("", headings, (), lines), bold, is_whole=is_whole)


def _cell(text: str) -> str:
    return escape(plain(text))


def heading_words(column: str) -> str:
    """Heading for a column of a table of the lake: `output_count` is outputs, `criterion_id` criterion."""
    name = column.removesuffix("_id").removesuffix("_at")
    if not name.endswith("_count"):
        return name.replace("_", " ")
    noun = name.removesuffix("_count").replace("_", " ")
    return "criteria" if noun == "criterion" else f"{noun}s"


def say(*sentences: str) -> None:
    """Print sentences on stdout, a line each; a terminal wraps them between words and commands."""
    for sentence in sentences:
        people.print(plain(sentence), markup=False)


def plain(value: object) -> str:
    """Format a value on one line; control characters, which could control a terminal, are escaped."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if isinstance(value, datetime):
        text = f"{value:%Y-%m-%d %H:%M:%S}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def for_stdout(text: str) -> str:
    """Text of many lines as stdout gets it: a terminal gets control characters and marks of direction as `\\u202e`.

    In JSON that is the same text. A file or a pipe gets the text unchanged.
    """
    if not sys.stdout.isatty():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t" else json.dumps(letter)[1:-1] for letter in text)


class Stdout:
    """Stdout for writers that write piece by piece: see `for_stdout`."""

    def write(self, text: str) -> int:
        return sys.stdout.write(for_stdout(text))
