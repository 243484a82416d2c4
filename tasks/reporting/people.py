"""The judge beside people and beside itself."""

from typing import Any

from tasks.reporting.source import ReportSource


def read_people(source: ReportSource) -> Any:
    """The judge beside people and beside itself."""
    return source.summary.noise or source.summary.calibration or None
