"""Sections of the report, one package each; `reporting.page` lists them in order."""
