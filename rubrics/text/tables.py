"""Tables of texts: written once, drawn for the terminal, a page, Markdown and the picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gradebook.rubrics.text.wording import counted

Record = TypeVar("Record")
Cells = Mapping[str, Callable[[Record], str]]  # heading -> function that gives a record's text in that column


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table; numbers are right-aligned."""

    heading: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Table of texts. rows: one text per column; flagged: indexes of the rows marked as bad."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    flagged: frozenset[int] = frozenset()


def table_of(
    caption: str,
    words: Iterable[str],
    numbers: Iterable[str],
    rows: Iterable[Sequence[str]],
    flagged: Iterable[int] = (),
) -> Table:
    """Table with columns of words, then columns of numbers. rows: one text per column."""
    columns = (*(Column(heading) for heading in words), *(Column(heading, is_number=True) for heading in numbers))
    return Table(caption, columns, tuple(tuple(row) for row in rows), frozenset(flagged))


def table_from(
    caption: str,
    words: Cells[Record],
    numbers: Cells[Record],
    records: Iterable[Record],
    flagged: Iterable[int] = (),
    last: Cells[Record] | None = None,
) -> Table:
    """Table with one row per record. words, numbers, last: columns, as functions from a record to a text.

    last: columns of words after those of numbers.
    """
    cells = (*words.values(), *numbers.values(), *(last or {}).values())
    table = table_of(caption, words, numbers, ([text(record) for text in cells] for record in records), flagged)
    return replace(table, columns=(*table.columns, *map(Column, last or ())))


def pick_columns(cells: Cells[Record], *headings: str) -> dict[str, Callable[[Record], str]]:
    """Columns with these headings, ignoring case: `Mean` and `mean` are the same column."""
    return {heading: cells[heading.casefold()] for heading in headings}


def in_lower_case(table: Table) -> Table:
    """Table whose caption and headings begin in lower case, for the terminal; `SD` and `A` stay."""
    columns = tuple(replace(column, heading=_lowered(column.heading)) for column in table.columns)
    return replace(table, caption=_lowered(table.caption), columns=columns)


def capitalised(caption: str, cells: Cells[Record], records: Iterable[Record], word_count: int = 1) -> Table:
    """Table of the terminal's columns with capitalised headings, for a page.

    word_count: count of leading text columns.
    """
    columns = [(f"{name[0].upper()}{name[1:]}", text) for name, text in cells.items()]
    return table_from(caption, dict(columns[:word_count]), dict(columns[word_count:]), records)


def rows_cut(table: Table, most_rows: int) -> Table:
    """Table cut to its first rows, with a last line that counts the others."""
    return with_rest(replace(table, rows=table.rows[:most_rows]), len(table.rows) - most_rows)


def with_rest(table: Table, rest_count: int, words: str = "") -> Table:
    """Table with a last line that counts omitted rows, if any. words: text added to that line."""
    if rest_count <= 0:
        return table
    line = (f"and {counted(rest_count, 'other')}{words}", *[""] * (len(table.columns) - 1))
    return replace(table, rows=(*table.rows, line))


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
