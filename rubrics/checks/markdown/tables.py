"""Check of tables."""

from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from gradebook.rubrics.check_kit.bounds import Count
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, text_column, to_mask
from gradebook.rubrics.check_kit.evidence import evidence_where, join_texts
from gradebook.rubrics.checks.keywords.keywords import Words
from gradebook.rubrics.checks.markdown.lines import Places, mark_rows, split_markdown
from gradebook.rubrics.checks.markdown.table_cells import Cells, Tables, find_columns, find_tables, split_cells

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
    shown = join_texts("the first table: ", pc.fill_null(faults.take(pa.array(firsts)), ""))
    evidence = evidence_where(pa.array(mark_rows(tables.rows, len(texts))), shown)
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


def _name_counts(counts: Places, is_missed: Mask, unit: str, limit: str) -> pa.StringArray:
    missed = pa.array(counts[is_missed])
    units = pc.if_else(pc.equal(missed, 1), f" {unit}", f" {unit}s")
    return evidence_where(pa.array(is_missed), join_texts(missed.cast(pa.string()), units, limit))
