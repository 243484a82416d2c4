"""Checks of Markdown: headings, code, tables, lists, and whether rows are sorted."""
