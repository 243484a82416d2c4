"""Sections of the report, one module each; `reporting.page` lists them in order."""
