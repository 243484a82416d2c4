"""What the run cost, where, and what the next one will."""

from typing import Any

from tasks.reporting.source import ReportSource


def read_cost(source: ReportSource) -> Any:
    """What the run cost, where, and what the next one will."""
    return source.summary.costs
