"""The scores of the run's models over earlier runs."""

from typing import Any

from tasks.reporting.source import ReportSource


def read_history(source: ReportSource) -> Any:
    """The scores of the run's models over earlier runs."""
    return None
