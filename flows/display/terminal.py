"""The two consoles, and text made safe for a terminal.

A table fits the width of its console: cells are cut in the middle, and columns left out from the right. Sentences are
broken between words, never within a command in backticks.
"""

import json
import os
import re
import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.segment import Segment
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from gradebook.rubrics.text.tables import Table, table_of

NO_WIDTH = 1_000_000
PIPE_WIDTH = 120  # of a table with sentences, on a pipe
_NO_VALUE = ("–", "null", "")
_NUMBER = re.compile(r"[-+<>≤]*\$?\d[\d,]*(\.\d+)?(e[-+]\d+)?%?")  # a column of these alone goes to the right


class _Console(Console):
    """Console as wide as its terminal. A pipe and a file have no width, so nothing is cut or wrapped there.

    is_wide: as if the terminal had no width either.
    """

    is_wide = False

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        actual = super().size
        return actual if self.file.isatty() and not self.is_wide else ConsoleDimensions(NO_WIDTH, actual.height)

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
        super().print(wrapped(text, self.width), soft_wrap=True, **options)

    def on_broken_pipe(self) -> None:
        """Go on without output: `| head` changes no exit code."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


stdout = _Console(highlight=False)  # the output of a command, unless as JSON
stderr = _Console(stderr=True, highlight=False)  # progress, and remarks on the command itself


def show_wide(is_wanted: bool = True) -> None:
    """Show all columns and whole cells of tables, whatever the terminal's width."""
    stdout.is_wide = is_wanted


def filled_columns(
    headings: Iterable[str], rows: Sequence[Sequence[object]], fixed_count: int = 0
) -> tuple[list[str], list[list[object]]]:
    """Headings and rows for `show_rows`, without empty columns. fixed_count: first columns that stay."""
    numbered = [*enumerate(headings)]
    indices = [
        index for index, _ in numbered if index < fixed_count or any(row[index] not in (None, "") for row in rows)
    ]
    return [numbered[index][1] for index in indices], [[row[index] for index in indices] for row in rows]


def show(table: Table, bold: Container[int] = (), *, is_whole: bool = False, is_narrow: bool = False) -> None:
    """Print a table on stdout, columns of numbers alone to the right; the first cell of flagged rows is red.

    bold: indexes of the rows to print in bold, from 0. is_whole: no sentence is shortened. is_narrow: on a pipe, cells
    wrap so that the table is at most `PIPE_WIDTH` wide.
    """
    drawn = FittedTable(*(escape(plain(column.heading)) for column in table.columns), title=_cell(table.caption))
    drawn.is_whole = is_whole
    for position, (column, kind) in enumerate(zip(drawn.columns, table.columns, strict=True)):
        cells = [row[position] for row in table.rows]
        if kind.is_number or (cells and all(cell in _NO_VALUE or _NUMBER.fullmatch(cell) for cell in cells)):
            column.justify = "right"
    for index, row in enumerate(table.rows):
        first, *others = map(_cell, row)
        first = f"[red]{first}[/]" if index in table.flagged else first
        drawn.add_row(first, *others, style="bold" if index in bold else None)
    drawn.is_lossless = is_narrow and stdout.width == NO_WIDTH and not stdout.is_wide
    stdout.print(drawn, width=PIPE_WIDTH if drawn.is_lossless else None)


def show_rows(
    headings: Iterable[str],
    rows: Iterable[Iterable[object]],
    bold: Container[int] = (),
    null: str = "–",
    *,
    is_whole: bool = False,
    is_narrow: bool = False,
) -> None:
    """Print rows of values as a table without a title. null: text for None. is_narrow: see `show`."""
    lines = ([null if value is None else plain(value) for value in row] for row in rows)
    show(table_of("", headings, (), lines), bold, is_whole=is_whole, is_narrow=is_narrow)


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
        stdout.print(plain(sentence), markup=False)


def plain(value: object) -> str:
    """Format a value on one line; control characters, which could control a terminal, are escaped."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if isinstance(value, datetime):
        text = f"{value:%Y-%m-%d %H:%M:%S}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def for_stdout(text: str) -> str:
    """Text of many lines, safe for stdout: a terminal gets control and direction characters as `\\u202e`.

    In JSON that is the same text. A file or a pipe gets the text unchanged.
    """
    if not sys.stdout.isatty():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t" else json.dumps(letter)[1:-1] for letter in text)


class Stdout:
    """Stdout for writers that write piece by piece: see `for_stdout`."""

    def write(self, text: str) -> int:
        return sys.stdout.write(for_stdout(text))


GAP = 2  # between two columns
LEAST_WIDTH = 17  # of a column of names: eight letters on each side of the ellipsis
LEAST_CRITERION_WIDTH = 28
LEAST_SENTENCE_WIDTH = 24
MOST_LINES = 3  # of a sentence in a cell
ELLIPSIS = "…"


@dataclass(slots=True)
class _Fitted:
    """Column of a table, fitted to the console.

    least: width below which nothing readable is left. is_key: names the row, so the column is never left out.
    command: width of the longest command in backticks, which is broken only where other columns can't be narrower.
    """

    column: Column
    cells: list[Text]
    width: int
    least: int
    is_key: bool
    command: int


class FittedTable(RichTable):
    """Table whose columns are ordered by importance.

    A run's id, a number and an interval are never cut. A longer name is cut in the middle, a sentence at its end,
    after three lines, and columns that still do not fit are left out from the right and named below the table: a run's
    id only where it is the last column.

    is_whole: sentences wrap over as many lines as they need. is_lossless: nothing is cut or left out; what is longer
    than its column goes on in the next line.
    """

    is_whole = False
    is_lossless = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [
            _measured(column, position, len(self.columns), console) for position, column in enumerate(self.columns)
        ]
        fitted = columns if self.is_lossless else _columns_that_fit(columns, options.max_width)
        _shrink(fitted, options.max_width)
        for column in fitted:
            column.cells = [wrapped(cell, column.width) for cell in column.cells]
        table = RichTable(title=self.title, title_justify="left", title_style="bold", caption_justify="left", **LOOK)
        for column in fitted:
            table.add_column(column.column.header, justify=column.column.justify, width=column.width, overflow="fold")
        is_cut = False
        for index, row in enumerate(self.rows):
            if self.is_lossless:
                cells = [column.cells[index] for column in fitted]
            else:
                cells = [_cut(column, index, console, is_whole=self.is_whole) for column in fitted]
            is_cut = is_cut or any(cell is not column.cells[index] for cell, column in zip(cells, fitted, strict=True))
            table.add_row(*cells, style=row.style)
        omitted = ", ".join(str(column.column.header) for column in columns if column not in fitted)
        if omitted:
            table.caption = f"not shown: {omitted}; --wide shows all"
        elif is_cut:
            table.caption = "shortened (…); --wide shows all"
        for line in Segment.split_lines(console.render(table, options)):
            yield from _without_end_blanks(line)
            yield Segment.line()


def _without_end_blanks(line: Sequence[Segment]) -> list[Segment]:
    """Line of a table without the blanks that fill its last column: they are noise in a file."""
    segments = list(line)
    while segments and not segments[-1].text.strip(" "):
        segments.pop()
    return [*segments[:-1], segments[-1]._replace(text=segments[-1].text.rstrip(" "))] if segments else segments


LOOK: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "show_edge": False, "collapse_padding": True}


def _measured(column: Column, position: int, count: int, console: Console) -> _Fitted:
    cells = [
        cell if isinstance(cell, Text) else console.render_str(str(cell), highlight=False) for cell in column.cells
    ]
    heading = str(column.header)
    width = max(map(_width, [Text(heading), *cells]))
    is_key = position == 0 or (_is_run(heading) and position < count - 1) or _is_criterion(heading)
    command = max((command_width(cell.plain) for cell in cells), default=0)
    return _Fitted(column, cells, width, min(width, _least(heading, column, cells)), is_key, command)


def _least(heading: str, column: Column, cells: Sequence[Text]) -> int:
    """Least width that leaves a column readable."""
    has_words = any(letter.isalpha() for cell in cells for letter in cell.plain.replace(" to ", ""))
    if _is_run(heading) or column.no_wrap or column.justify == "right" or not has_words:
        return max(map(_width, [*map(Text, heading.split()), *cells]), default=0)  # a heading may wrap
    if any(" " in cell.plain for cell in cells):
        return max(LEAST_SENTENCE_WIDTH, len(heading))
    return max(LEAST_CRITERION_WIDTH if _is_criterion(heading) else LEAST_WIDTH, len(heading))


def _is_run(heading: str) -> bool:
    return heading.casefold() == "run" or heading.casefold().endswith("run_id")


def _is_criterion(heading: str) -> bool:
    return heading.casefold() in ("criterion", "criterion_id")


def _columns_that_fit(columns: list[_Fitted], width: int) -> list[_Fitted]:
    """Leave out columns from the right until the rest fits at its least widths; key columns go last."""
    fitting = list(columns)
    for is_key in (False, True):
        for candidate in reversed(columns[1:]):
            if _total_width(fitting, (column.least for column in fitting)) > width and candidate.is_key is is_key:
                fitting.remove(candidate)
    return fitting


def _shrink(columns: list[_Fitted], width: int) -> None:
    """Narrow the widest columns, one cell at a time, until all fit."""
    for column in columns:
        column.width = min(column.width, width)
    excess = max(0, _total_width(columns, (column.width for column in columns)) - width)
    for _ in range(excess):
        widest = max(
            columns,
            key=lambda column: (
                column.width > max(column.least, column.command),
                column.width > column.least,
                column.width,
            ),
        )
        widest.width = max(1, widest.width - 1)


def _total_width(columns: Sequence[_Fitted], widths: Iterable[int]) -> int:
    return sum(widths) + GAP * (len(columns) - 1)


def _width(text: Text) -> int:
    return max((line.cell_len for line in text.split(allow_blank=True)), default=0)


def _cut(column: _Fitted, index: int, console: Console, *, is_whole: bool) -> Text:
    """Cut a cell: a name in the middle, to one line, a sentence at its end, to three lines; a run's id stays whole."""
    cell, width = column.cells[index], column.width
    if " " in cell.plain:
        return cell if is_whole else _sentence_cut(cell, width, console)
    if _width(cell) <= width or _is_run(str(column.column.header)):
        return cell
    letters = max(width - 1, 1)
    tail = letters // 2
    return Text.assemble(cell[: letters - tail], ELLIPSIS, cell[len(cell) - tail :])


def _sentence_cut(cell: Text, width: int, console: Console) -> Text:
    lines = cell.wrap(console, width, overflow="fold")
    if len(lines) <= MOST_LINES:
        return cell
    *first, last = lines[:MOST_LINES]
    if last.cell_len >= width:
        last.truncate(max(last.plain.rfind(" "), 0) or width - 1)
    return Text("\n").join([*first, Text(f"{last.plain.rstrip(' ,;:.…')}{ELLIPSIS}", last.style)])


_PIECE = re.compile(r"(?:`[^`]*`|\S)+\s*")  # a word, or what stands between backticks, with the spaces after it
_HEAD = re.compile(r"^ *(?:- |\S+ {2,})?")  # indent of a line with the mark of a list, or with a first column


def wrapped(text: Text, width: int) -> Text:
    """Break lines that are longer than width; each goes on below its first word, after a mark of a list or a column.

    A piece without a space, and a command in backticks, that is longer than a line sticks out of it.
    """
    lines = []
    for line in text.split("\n", allow_blank=True):
        indent = len(line) - len(_HEAD.sub("", line.plain))
        first, *others = line.divide(_breaks(line.plain, indent, width))
        lines += [first, *(Text.assemble(" " * indent, other) for other in others)]
        for broken in lines[-1 - len(others) : -1]:
            broken.rstrip()
    return Text("\n").join(lines)


def command_width(text: str) -> int:
    """Width of the widest piece of a text with a command in backticks; 0 without one."""
    return max((cell_len(piece[0].rstrip()) for piece in _PIECE.finditer(text) if "`" in piece[0]), default=0)


def _breaks(line: str, indent: int, width: int) -> list[int]:
    """Offsets at which a line is broken."""
    offsets, used = [], indent
    for piece in _PIECE.finditer(line, indent):
        if used > indent and used + cell_len(piece[0].rstrip()) > width:
            offsets.append(piece.start())
            used = indent
        used += cell_len(piece[0])
    return offsets
