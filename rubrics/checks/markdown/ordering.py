"""Check that lines, lists or tables are sorted."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import (
    EXCERPT_CHARACTERS,
    Mask,
    cut_texts,
    evidence_where,
    join_texts,
    text_column,
    to_mask,
)
from gradebook.rubrics.check_kit.normalising import Fold, fold_texts
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.checks.markdown.elements import MARKS, find_items
from gradebook.rubrics.checks.markdown.lines import (
    NOT_BLANK,
    Indices,
    MarkdownLines,
    mark_rows,
    match_mask,
    split_markdown,
)
from gradebook.rubrics.checks.markdown.tables import Cells, find_columns, find_tables, read_cells, split_cells

EMPHASIS = rf"[*`]|^[{WHITESPACE}_]+|[{WHITESPACE}_]+$"
# A sign counts only at the start or after whitespace, a bracket or a currency: "A-5" and "3-5" are 5 and 3.
NUMBER = (
    rf"(?:(?:^|[{WHITESPACE}(\[|\p{{Sc}}])(?P<sign>[-+\x{{2212}}]))?\p{{Sc}}?"
    r"(?P<whole>[0-9]+(?:,[0-9]+)*)(?P<rest>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
)
NOT_THOUSANDS = r"^(?:[0-9]{4,},|[0-9]+(?:,[0-9]{3})*,(?:[0-9]{1,2}(?:,|$)|[0-9]{4}))"
UNREAD_EXPONENT = r"[eE][-+]?[0-9]{3}"
DATE = (
    r"(?:^|[^0-9])(?P<day>[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))"
    r"(?:[T ](?P<time>(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?)|[^0-9]|$)"
)
MOST_DIGITS = 200  # keeps every number within the range of a 64-bit float


def text_keys(values: pa.Array, fold: Fold, *, is_case_sensitive: bool) -> pa.Array:
    """Values without emphasis, folded: (value,). UTF-8 compares in code point order."""
    bare = fold_texts(pc.replace_substring_regex(values, EMPHASIS, ""), fold)
    return bare if is_case_sensitive else pc.utf8_lower(pc.utf8_upper(bare))


def number_keys(values: pa.Array) -> pa.DoubleArray:
    """First number in each value, null if there is none or it is too large: (value,).

    A comma that does not separate thousands ends a number: "12,34" gives 12.
    """
    groups = pc.extract_regex(values, NUMBER)
    sign, whole, rest = (pc.struct_field(groups, name) for name in ("sign", "whole", "rest"))
    full = pc.binary_join_element_wise(pc.replace_substring(whole, ",", ""), rest, pa.scalar("", rest.type))
    first = pc.replace_substring_regex(whole, ",.*", "")
    size = pc.if_else(pc.match_substring_regex(whole, NOT_THOUSANDS), first, full)
    is_long = pc.greater(pc.binary_length(size), MOST_DIGITS)
    is_short = pc.invert(pc.or_(is_long, pc.match_substring_regex(size, UNREAD_EXPONENT)))
    sizes = pc.if_else(is_short, size, pa.scalar(None, size.type)).cast(pa.float64())
    is_negative = pc.is_in(sign, value_set=pa.array(["-", "\u2212"], sign.type))
    return pc.if_else(is_negative, pc.negate(sizes), sizes)


def date_keys(values: pa.Array) -> pa.Array:
    """First ISO date in each value with its time, as sortable text; null if there is none: (value,)."""
    groups = pc.extract_regex(values, DATE)
    day, time = (pc.struct_field(groups, name) for name in ("day", "time"))
    return pc.binary_join_element_wise(day, time, pa.scalar(" ", day.type))


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
    rows: Indices
    groups: Indices
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
    item_lines = np.flatnonzero(find_items(lines))
    items = lines.texts.take(pa.array(item_lines))
    groups = _group_items(lines, item_lines, items)
    indents = pc.binary_length(pc.struct_field(pc.extract_regex(items, INDENT), "indent")).to_numpy()
    _, firsts = np.unique(groups, return_index=True)
    is_top = indents < indents[firsts][groups] + WITHIN_ITEM
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(items.filter(pa.array(is_top)), ITEM_START, ""))
    rows = lines.rows[item_lines[is_top]]
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


def _group_items(lines: MarkdownLines, item_lines: Indices, items: pa.Array) -> Indices:
    """Index of the list that each item belongs to, from 0: (item,). item_lines: (item,)."""
    is_between = match_mask(lines.texts, r"^[^ \t\r]") & ~lines.is_code
    is_between[item_lines] = False
    before = np.cumsum(is_between)[item_lines]  # number of lines of other text above
    rows = lines.rows[item_lines]
    is_other_row = rows[1:] != rows[:-1]
    is_new = is_other_row | ((before[1:] != before[:-1]) & ~match_mask(items, CONTINUED_NUMBER)[1:])
    return np.concatenate([np.zeros(min(len(item_lines), 1), np.int64), np.cumsum(is_new)])


def _locate_columns(headers: Cells, column: str | int, is_case_sensitive: bool) -> Indices:
    if isinstance(column, str):
        return find_columns(headers, column, is_case_sensitive=is_case_sensitive)
    return np.where(headers.counts >= column, column - 1, -1)


def _pick_cells(cells: Cells, columns: Indices) -> pa.Array:
    """Cell of each line in its column, empty if the line is too short. columns: (line,). Returns (line,)."""
    cell_indices = np.where(columns < cells.counts, cells.starts[:-1] + columns, -1)
    return pc.fill_null(read_cells(cells.texts.take(pa.array(cell_indices, mask=cell_indices < 0))), "")


def _reasons(lines: MarkdownLines, rows: Indices, reason: str) -> pa.StringArray:
    """Put the reason on each output that is not among the rows: (output,)."""
    return evidence_where(pa.array(~mark_rows(rows, len(lines.starts) - 1)), reason)


UNITS = {"lines": "line", "list": "item", "table": "row"}
EXPECTED = {"number": "a number", "date": "an ISO date", "text": "a text"}


class SortSettings(CheckSettings):
    """Values to compare, and their order."""

    source: Literal["lines", "list", "table"]
    """values to compare: the `lines` of the output, the items of each Markdown `list`, the rows of each `table`"""
    column: Annotated[int, Field(ge=1, strict=True)] | Annotated[str, Field(min_length=1)] | None = None
    """the column of a table, by name or by number from 1; default: the first one"""
    order: Literal["ascending", "descending"] = "ascending"
    """whether the values go up or down"""
    as_: Annotated[Literal["text", "number", "date"], Field(alias="as")] = "text"
    """how a value is read: the whole `text`, the first `number` in it, or the first ISO `date` in it"""
    case_sensitive: bool = False
    """whether "b" and "B" differ, in texts and in the column's name; capital letters then come before small ones"""
    fold: Fold = "none"
    """differences in writing to ignore in texts, as in `contains`: with `accents`, "é" is sorted as "e\""""
    is_strict: bool = False
    """fail if adjacent values are equal"""

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.column is not None and self.source != "table":
            raise ValueError(f"found column with source: {self.source}, expected it with source: table")
        if self.fold != "none" and self.as_ != "text":
            raise ValueError(f"found fold with as: {self.as_}, expected it with as: text")
        return self


@register_check(
    "is_sorted",
    SortSettings,
    examples=(
        Example("- apple\n- Pear\n- plum", True, {"source": "list"}),
        Example("- apple\n- plum\n- Pear", False, {"source": "list"}),
        Example(
            "| Item | Price |\n|---|---|\n| Cake | $10 |\n| Tea | $9 |",
            True,
            {"source": "table", "column": "Price", "as": "number", "order": "descending"},
        ),
        Example("Tea, then cake.", None, {"source": "table"}),
    ),
)
def is_sorted(shard: pa.Table, settings: SortSettings) -> CheckVerdicts:
    """The lines, the items of each list, or the rows of each table are sorted.

    Texts are compared by their code points, without emphasis and, unless `case_sensitive`, without case; the sort order
    of a language is not known. A number may have a sign, a currency, commas between thousands, a decimal point and an
    exponent of one or two digits, and is compared as a 64-bit float. A number with a longer exponent is not read; a
    comma elsewhere ends a number, so "12,34" and "12,3456" are 12. A date is `YYYY-MM-DD` with or without a time; time
    zones are ignored. A value without the requested number or date leaves the output unscored, unless a pair is out of
    order.

    Lists and tables are as in `count_list_items` and `has_table`. Text at the start of a line ends a list, unless an
    item with a number above 1 continues it; nested items are ignored. Lines are all non-blank ones, including fenced
    code. An output with no line, list, table or column to sort is unscored; a single value is sorted.
    """
    values = _read_values(text_column(shard, "output"), settings)
    keys = _read_keys(values.texts, settings)
    is_wrong = np.zeros(len(keys), np.bool_)  # whether a value and the next one of its group are out of order
    is_wrong[:-1] = (values.groups[1:] == values.groups[:-1]) & _are_misplaced(keys, settings)
    row_count = len(values.reasons)
    is_failed = mark_rows(values.rows[is_wrong], row_count)
    is_unread = to_mask(keys.is_null())
    unread = _describe_unread(values, is_unread, settings, row_count)
    reasons = pc.if_else(pa.array(is_failed), pa.scalar(None, pa.string()), pc.coalesce(values.reasons, unread))
    is_passed = pc.if_else(reasons.is_null(), pa.array(~is_failed), pa.scalar(None, pa.bool_()))
    return CheckVerdicts(is_passed, _describe_pairs(values, is_wrong, settings, is_failed), reasons)


def _read_values(texts: pa.Array, settings: SortSettings) -> SortedValues:
    lines = split_markdown(texts)
    if settings.source == "lines":
        return line_values(lines)
    if settings.source == "list":
        return list_values(lines)
    column = 1 if settings.column is None else settings.column
    return table_values(lines, column, is_case_sensitive=settings.case_sensitive)


def _read_keys(values: pa.Array, settings: SortSettings) -> pa.Array:
    if settings.as_ == "number":
        return number_keys(values)
    if settings.as_ == "date":
        return date_keys(values)
    return text_keys(values, settings.fold, is_case_sensitive=settings.case_sensitive)


def _are_misplaced(keys: pa.Array, settings: SortSettings) -> Mask:
    """Whether each key and the next one are out of order: (key - 1,)."""
    current, following = keys.slice(0, max(len(keys) - 1, 0)), keys.slice(1)
    low, high = (current, following) if settings.order == "ascending" else (following, current)
    compare = pc.greater_equal if settings.is_strict else pc.greater
    return to_mask(pc.fill_null(compare(low, high), False))


def _describe_pairs(values: SortedValues, is_wrong: Mask, settings: SortSettings, is_failed: Mask) -> pa.StringArray:
    """Describe the first misplaced pair of each failed output: (output,)."""
    first_indices = _first_indices(values.rows, is_wrong)
    numbers = first_indices - np.searchsorted(values.groups, values.groups[first_indices]) + 1
    current, following = (
        cut_texts(values.texts.take(pa.array(first_indices + step)), EXCERPT_CHARACTERS) for step in (0, 1)
    )
    order = f"{'strictly ' if settings.is_strict else ''}{settings.order}"
    unit, number_texts = f"{UNITS[settings.source]} ", pa.array(numbers).cast(pa.string())
    text = join_texts(unit, number_texts, " '", current, "' stands before '", following, f"', expected {order} order")
    return evidence_where(pa.array(is_failed), text)


def _describe_unread(values: SortedValues, is_unread: Mask, settings: SortSettings, row_count: int) -> pa.StringArray:
    """Describe the first unreadable value of each output: (output,)."""
    first_indices = _first_indices(values.rows, is_unread)
    excerpts = cut_texts(values.texts.take(pa.array(first_indices)), EXCERPT_CHARACTERS)
    is_named = pa.array(mark_rows(values.rows[first_indices], row_count))
    return evidence_where(is_named, join_texts("found '", excerpts, f"', expected {EXPECTED[settings.as_]}"))


def _first_indices(rows: Indices, mask: Mask) -> Indices:
    """First marked value of each output that has one. rows, mask: (value,)."""
    indices = np.flatnonzero(mask)
    return indices[np.unique(rows[indices], return_index=True)[1]]
