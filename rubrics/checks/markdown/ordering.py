"""Check that lines, lists or tables are sorted."""

from typing import Annotated, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, text_column, to_mask
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_texts, evidence_where, join_texts
from gradebook.rubrics.check_kit.folding import Fold
from gradebook.rubrics.checks.markdown.lines import Places, mark_rows, split_markdown
from gradebook.rubrics.checks.markdown.sort_keys import date_keys, number_keys, text_keys
from gradebook.rubrics.checks.markdown.sorted_values import SortedValues, line_values, list_values, table_values

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
    here, following = keys.slice(0, max(len(keys) - 1, 0)), keys.slice(1)
    low, high = (here, following) if settings.order == "ascending" else (following, here)
    compare = pc.greater_equal if settings.is_strict else pc.greater
    return to_mask(pc.fill_null(compare(low, high), False))


def _describe_pairs(values: SortedValues, is_wrong: Mask, settings: SortSettings, is_failed: Mask) -> pa.StringArray:
    """Describe the first misplaced pair of each failed output: (output,)."""
    places = _first_places(values.rows, is_wrong)
    numbers = places - np.searchsorted(values.groups, values.groups[places]) + 1
    here, following = (cut_texts(values.texts.take(pa.array(places + step)), EXCERPT_CHARACTERS) for step in (0, 1))
    order = f"{'strictly ' if settings.is_strict else ''}{settings.order}"
    unit, shown = f"{UNITS[settings.source]} ", pa.array(numbers).cast(pa.string())
    text = join_texts(unit, shown, " '", here, "' stands before '", following, f"', expected {order} order")
    return evidence_where(pa.array(is_failed), text)


def _describe_unread(values: SortedValues, is_unread: Mask, settings: SortSettings, row_count: int) -> pa.StringArray:
    """Describe the first unreadable value of each output: (output,)."""
    places = _first_places(values.rows, is_unread)
    shown = cut_texts(values.texts.take(pa.array(places)), EXCERPT_CHARACTERS)
    is_named = pa.array(mark_rows(values.rows[places], row_count))
    return evidence_where(is_named, join_texts("found '", shown, f"', expected {EXPECTED[settings.as_]}"))


def _first_places(rows: Places, mask: Mask) -> Places:
    """First marked value of each output that has one. rows, mask: (value,)."""
    places = np.flatnonzero(mask)
    return places[np.unique(rows[places], return_index=True)[1]]
