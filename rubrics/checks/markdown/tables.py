"""Markdown tables: their location, their cells, and the check of tables."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, evidence_where, join_texts, text_column, to_mask
from gradebook.rubrics.check_kit.measures import Count
from gradebook.rubrics.checks.keywords import Words
from gradebook.rubrics.checks.markdown.lines import (
    NOT_BLANK,
    Indices,
    MarkdownLines,
    mark_rows,
    match_mask,
    split_markdown,
)

DELIMITERS = r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t\r]*$"
# Heading, quote, list mark, or break of dashes, asterisks or underscores: a table ends above it.
BLOCK_START = (
    r"^[ \t]*(?:#{1,6}(?:[ \t\r]|$)|>|(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t\r]|$)"
    r"|(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})\r?$)"
)
ESCAPED = r"\|"
STAND_IN = "\x00"  # replaces an escaped pipe while a row is split
EDGE_MARKS = "*_` "


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of a shard, in order. All: (table,).

    rows: the output. headers: line of the header. stops: after the line of the last row.
    """

    rows: Indices
    headers: Indices
    stops: Indices

    @property
    def row_counts(self) -> Indices:
        """Number of rows below the header: (table,)."""
        return self.stops - self.headers - 2


@dataclass(frozen=True, slots=True)
class Cells:
    """Raw cells of some lines, for `read_cells`. texts: (cell,). starts: (line + 1,), first cell of each line."""

    texts: pa.Array
    starts: Indices

    @property
    def counts(self) -> Indices:
        """Number of cells of each line: (line,)."""
        return np.diff(self.starts)

    @property
    def lines(self) -> Indices:
        """Line of each cell, by index: (cell,)."""
        return np.repeat(np.arange(len(self.starts) - 1), self.counts)


def find_tables(lines: MarkdownLines) -> Tables:
    """Find tables as defined by GitHub's Markdown.

    A table is a line directly above a delimiter line of dashes and pipes (at least one of each) with as many cells,
    followed by all lines until a blank one or the start of another block.
    """
    delimiters = np.flatnonzero(_are_delimiters(lines))
    headers = delimiters - 1
    breaks = _find_breaks(lines) if len(delimiters) else np.zeros(0, np.int64)
    is_header = (headers >= 0) & (lines.rows[headers] == lines.rows[delimiters]) & ~np.isin(headers, breaks)
    headers = headers[is_header]
    texts, below = (lines.texts.take(pa.array(line_indices)) for line_indices in (headers, headers + 1))
    headers = headers[split_cells(texts).counts == split_cells(below).counts]
    stops = np.append(breaks, len(lines.texts))[np.searchsorted(breaks, headers)]
    stops = np.minimum(stops, lines.starts[lines.rows[headers] + 1])
    # in a block with several possible headers, the first one counts
    stops, firsts = np.unique(stops, return_index=True)
    return Tables(lines.rows[headers[firsts]], headers[firsts], stops)


def split_cells(lines: pa.Array) -> Cells:
    """Split table rows at their pipes; "\\|" is a pipe within a cell. lines: (line,)."""
    masked = pc.utf8_trim_whitespace(pc.replace_substring(lines, ESCAPED, STAND_IN))
    headless = pc.if_else(pc.starts_with(masked, "|"), pc.utf8_slice_codeunits(masked, 1), masked)
    inner = pc.if_else(pc.ends_with(headless, "|"), pc.utf8_slice_codeunits(headless, 0, -1), headless)
    cell_lists = pc.split_pattern(inner, "|")
    return Cells(cell_lists.flatten(), cell_lists.offsets.to_numpy().astype(np.int64))


def find_columns(headers: Cells, name: str, *, is_case_sensitive: bool) -> Indices:
    """Index of the named column in each header, -1 if it has none: (header,)."""
    texts, wanted_name = read_cells(headers.texts), read_cells(pa.array([name]))
    if not is_case_sensitive:
        texts, wanted_name = (pc.utf8_lower(pc.utf8_upper(values)) for values in (texts, wanted_name))
    cells = np.flatnonzero(to_mask(pc.equal(texts, wanted_name[0])))[
        ::-1
    ]  # reversed, so that the first of several wins
    column_indices = np.full(len(headers.starts) - 1, -1, np.int64)
    owners = headers.lines[cells]
    column_indices[owners] = cells - headers.starts[owners]
    return column_indices


def read_cells(texts: pa.Array) -> pa.Array:
    """Text of the cells, without whitespace and emphasis at the edges: (cell,)."""
    restored = pc.replace_substring(texts, STAND_IN, "|")
    return pc.utf8_trim(pc.utf8_trim_whitespace(restored), EDGE_MARKS)


def _find_breaks(lines: MarkdownLines) -> Indices:
    """Lines that end a table: (break,)."""
    is_break = ~match_mask(lines.texts, NOT_BLANK) | lines.is_code
    is_break |= match_mask(lines.texts, BLOCK_START) & ~_are_delimiters(lines)
    return np.flatnonzero(is_break)


def _are_delimiters(lines: MarkdownLines) -> Mask:
    return lines.matches(DELIMITERS) & lines.matches(r"\|")


PRICES = "| Item | Price |\n|---|---:|\n| Tea | 2 |\n| Cake | 3 |"


class TableSettings(CheckSettings):
    """Requirements for the table; without any, every table passes."""

    columns: Words | None = None
    """names required in the header, in any order; other columns may be present"""
    case_sensitive: bool = False
    """whether "Price" and "PRICE" differ"""
    min_columns: Count | None = None
    """minimum number of columns"""
    max_columns: Count | None = None
    """maximum number of columns"""
    min_rows: Count | None = None
    """minimum number of rows, without the header"""
    max_rows: Count | None = None
    """maximum number of rows, without the header"""

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> Self:
        names = frozenset(name if self.case_sensitive else name.upper() for name in self.columns or ())
        for unit, least, most in (
            ("columns", max(self.min_columns or 0, len(names)), self.max_columns),
            ("rows", self.min_rows or 0, self.max_rows),
        ):
            if most is not None and least > most:
                raise ValueError(f"found max_{unit} {most}, expected at least the {least} required")
        return self


@register_check(
    "has_table",
    TableSettings,
    examples=(
        Example(PRICES, True, {"columns": ["price"], "min_rows": 2}),
        Example(PRICES, False, {"columns": ["Item", "Quantity"]}),
        Example(f"```\n{PRICES}\n```", False),
    ),
)
def has_table(shard: pa.Table, settings: TableSettings) -> CheckVerdicts:
    """At least one Markdown table has the required columns and an allowed number of rows and columns.

    A table is a line of cells, a delimiter line of dashes and pipes with as many cells directly below, and all rows
    until a blank line or the start of another block, as on GitHub. A pipe at the edge of a line is optional; `\\|` is a
    pipe in a cell. Column names are compared without surrounding whitespace and emphasis. HTML tables and tables in
    fenced code or in a quote do not count. The evidence is the first requirement that the first table misses.
    """
    texts = text_column(shard, "output")
    lines = split_markdown(texts)
    tables = find_tables(lines)
    faults = _find_faults(tables, split_cells(lines.texts.take(pa.array(tables.headers))), settings)
    has_fitting = mark_rows(tables.rows[to_mask(faults.is_null())], len(texts))
    _, firsts = np.unique(tables.rows, return_index=True)
    messages = join_texts("the first table: ", pc.fill_null(faults.take(pa.array(firsts)), ""))
    evidence = evidence_where(pa.array(mark_rows(tables.rows, len(texts))), messages)
    evidence = pc.if_else(pa.array(has_fitting), pa.scalar(None, pa.string()), pc.fill_null(evidence, "found no table"))
    return CheckVerdicts(pa.array(has_fitting), evidence)


def _find_faults(tables: Tables, headers: Cells, settings: TableSettings) -> pa.StringArray:
    """First requirement that each table misses; null if it meets all: (table,)."""
    faults = pa.nulls(len(tables.rows), pa.string())
    for name in settings.columns or ():
        is_missing = find_columns(headers, name, is_case_sensitive=settings.case_sensitive) < 0
        faults = pc.coalesce(faults, evidence_where(pa.array(is_missing), f"missing the column {name!r}"))
    bounds = (
        (headers.counts, "column", settings.min_columns, settings.max_columns),
        (tables.row_counts, "row", settings.min_rows, settings.max_rows),
    )
    for counts, unit, least, most in bounds:
        if least is not None:
            faults = pc.coalesce(faults, _name_counts(counts, counts < least, unit, f", at least {least} required"))
        if most is not None:
            faults = pc.coalesce(faults, _name_counts(counts, counts > most, unit, f", at most {most} allowed"))
    return faults


def _name_counts(counts: Indices, is_missed: Mask, unit: str, limit: str) -> pa.StringArray:
    missed = pa.array(counts[is_missed])
    units = pc.if_else(pc.equal(missed, 1), f" {unit}", f" {unit}s")
    return evidence_where(pa.array(is_missed), join_texts(missed.cast(pa.string()), units, limit))
