"""Sortable values of an output: its lines, the items of its lists, a column of its tables."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.evidence import evidence_where
from gradebook.rubrics.checks.markdown.lines import NOT_BLANK, MarkdownLines, Places, mark_rows, match_mask
from gradebook.rubrics.checks.markdown.list_items import MARKS, find_items
from gradebook.rubrics.checks.markdown.table_cells import Cells, find_columns, find_tables, read_cells, split_cells

ITEM_START = rf"^[ \t]*{MARKS['any']}[ \t]+(?:\[[ xX]\][ \t]+)?"
INDENT = r"^(?P<indent>[ \t]*)"
CONTINUED_NUMBER = r"^[ \t]*0*(?:[2-9]|1[0-9])[0-9]*[.)]"
WITHIN_ITEM = 2  # an item indented this much further than the first one of its list is nested


@dataclass(frozen=True, slots=True)
class SortedValues:
    """Values in their original order.

    texts, rows (the output), groups (the list or table): (value,); only values of one group are compared. reasons:
    (output,), why an output has no value; null if it has one.
    """

    texts: pa.Array
    rows: Places
    groups: Places
    reasons: pa.StringArray


def line_values(lines: MarkdownLines) -> SortedValues:
    """Non-blank lines, including those of fenced code but not the fences."""
    is_value = match_mask(lines.texts, NOT_BLANK)
    is_value[lines.blocks.firsts] = False
    is_value[lines.blocks.lasts[lines.blocks.is_closed]] = False
    rows = lines.rows[is_value]
    texts = pc.utf8_trim_whitespace(lines.texts.filter(pa.array(is_value)))
    return SortedValues(texts, rows, rows, _reasons(lines, rows, "no lines found"))


def list_values(lines: MarkdownLines) -> SortedValues:
    """Items of each list, without nested ones."""
    places = np.flatnonzero(find_items(lines))
    items = lines.texts.take(pa.array(places))
    groups = _group_items(lines, places, items)
    indents = pc.binary_length(pc.struct_field(pc.extract_regex(items, INDENT), "indent")).to_numpy()
    _, firsts = np.unique(groups, return_index=True)
    is_top = indents < indents[firsts][groups] + WITHIN_ITEM
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(items.filter(pa.array(is_top)), ITEM_START, ""))
    rows = lines.rows[places[is_top]]
    return SortedValues(texts, rows, groups[is_top], _reasons(lines, rows, "no list found"))


def table_values(lines: MarkdownLines, column: str | int, *, is_case_sensitive: bool) -> SortedValues:
    """Cells of a column, by name or by number from 1, in each table that has it."""
    tables = find_tables(lines)
    headers = split_cells(lines.texts.take(pa.array(tables.headers)))
    columns = _locate_columns(headers, column, is_case_sensitive)
    has_column = columns >= 0
    row_counts = np.where(has_column, tables.row_counts, 0)
    groups = np.repeat(np.arange(len(tables.rows)), row_counts)
    steps = np.arange(len(groups)) - np.repeat(np.cumsum(row_counts) - row_counts, row_counts)
    body = split_cells(lines.texts.take(pa.array(tables.headers[groups] + 2 + steps)))
    texts = _pick_cells(body, columns[groups])
    rows = tables.rows[groups]
    nothing = _reasons(lines, tables.rows, "no table found")
    nothing = pc.coalesce(nothing, _reasons(lines, tables.rows[has_column], f"no column {column!r} found"))
    return SortedValues(texts, rows, groups, pc.coalesce(nothing, _reasons(lines, rows, "no rows found")))


def _group_items(lines: MarkdownLines, places: Places, items: pa.Array) -> Places:
    """Index of the list that each item belongs to, from 0: (item,). places: (item,), its line."""
    is_between = match_mask(lines.texts, r"^[^ \t\r]") & ~lines.is_code
    is_between[places] = False
    before = np.cumsum(is_between)[places]  # number of lines of other text above
    rows = lines.rows[places]
    is_other_row = rows[1:] != rows[:-1]
    is_new = is_other_row | ((before[1:] != before[:-1]) & ~match_mask(items, CONTINUED_NUMBER)[1:])
    return np.concatenate([np.zeros(min(len(places), 1), np.int64), np.cumsum(is_new)])


def _locate_columns(headers: Cells, column: str | int, is_case_sensitive: bool) -> Places:
    if isinstance(column, str):
        return find_columns(headers, column, is_case_sensitive=is_case_sensitive)
    return np.where(headers.counts >= column, column - 1, -1)


def _pick_cells(cells: Cells, columns: Places) -> pa.Array:
    """Cell of each line in its column, empty if the line is too short. columns: (line,). Returns (line,)."""
    places = np.where(columns < cells.counts, cells.starts[:-1] + columns, -1)
    return pc.fill_null(read_cells(cells.texts.take(pa.array(places, mask=places < 0))), "")


def _reasons(lines: MarkdownLines, rows: Places, reason: str) -> pa.StringArray:
    """Put the reason on each output that is not among the rows: (output,)."""
    return evidence_where(pa.array(~mark_rows(rows, len(lines.starts) - 1)), reason)
