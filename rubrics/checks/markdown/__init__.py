"""Checks of Markdown: headings, code, tables, lists, inline marks, and sort order."""
