"""Checks of an output against its sources: links, citations, quotations, numbers."""
