"""Checks of Markdown: headings, code, tables, lists, and whether rows are sorted."""

from gradebook.rubrics.checks.markdown import code_blocks, headings, inline, list_items, ordering, tables

MODULES = (
    headings,
    code_blocks,
    tables,
    list_items,
    inline,
    ordering,
)

__all__ = ["MODULES"]
