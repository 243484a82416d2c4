"""Checks of an output against its sources: links, citations, quotations, numbers."""

from gradebook.rubrics.checks.grounding import citations, links, passages

MODULES = (
    citations,
    links,
    passages,
)

__all__ = ["MODULES"]
