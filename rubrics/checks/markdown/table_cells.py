"""Markdown tables: their location and their cells."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.columns import Mask, to_mask
from gradebook.rubrics.checks.markdown.lines import NOT_BLANK, MarkdownLines, Places, match_mask

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

    rows: Places
    headers: Places
    stops: Places

    @property
    def row_counts(self) -> Places:
        """Number of rows below the header: (table,)."""
        return self.stops - self.headers - 2


@dataclass(frozen=True, slots=True)
class Cells:
    """Raw cells of some lines, for `read_cells`. texts: (cell,). starts: (line + 1,), first cell of each line."""

    texts: pa.Array
    starts: Places

    @property
    def counts(self) -> Places:
        """Number of cells of each line: (line,)."""
        return np.diff(self.starts)

    @property
    def lines(self) -> Places:
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
    texts, below = (lines.texts.take(pa.array(places)) for places in (headers, headers + 1))
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
    listed = pc.split_pattern(inner, "|")
    return Cells(listed.flatten(), listed.offsets.to_numpy().astype(np.int64))


def find_columns(headers: Cells, name: str, *, is_case_sensitive: bool) -> Places:
    """Index of the named column in each header, -1 if it has none: (header,)."""
    texts, wanted = read_cells(headers.texts), read_cells(pa.array([name]))
    if not is_case_sensitive:
        texts, wanted = (pc.utf8_lower(pc.utf8_upper(both)) for both in (texts, wanted))
    cells = np.flatnonzero(to_mask(pc.equal(texts, wanted[0])))[::-1]  # reversed, so that the first of several wins
    places = np.full(len(headers.starts) - 1, -1, np.int64)
    owners = headers.lines[cells]
    places[owners] = cells - headers.starts[owners]
    return places


def read_cells(texts: pa.Array) -> pa.Array:
    """Text of the cells, without whitespace and emphasis at the edges: (cell,)."""
    restored = pc.replace_substring(texts, STAND_IN, "|")
    return pc.utf8_trim(pc.utf8_trim_whitespace(restored), EDGE_MARKS)


def _find_breaks(lines: MarkdownLines) -> Places:
    """Lines that end a table: (break,)."""
    is_break = ~match_mask(lines.texts, NOT_BLANK) | lines.is_code
    is_break |= match_mask(lines.texts, BLOCK_START) & ~_are_delimiters(lines)
    return np.flatnonzero(is_break)


def _are_delimiters(lines: MarkdownLines) -> Mask:
    return lines.matches(DELIMITERS) & lines.matches(r"\|")
