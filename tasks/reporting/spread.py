"""How the scores spread: by category, by level, and how many outputs meet a threshold."""

from typing import Any

from tasks.reporting.source import ReportSource


def read_spread(source: ReportSource) -> Any:
    """How the scores spread: by category, by level, and how many outputs meet a threshold."""
    return None
