"""Whether the numbers can be trusted: what was refused, left out, misread or in doubt."""

from typing import Any

from tasks.reporting.source import ReportSource


def read_trust(source: ReportSource) -> Any:
    """Whether the numbers can be trusted: what was refused, left out, misread or in doubt."""
    return source.summary.quality
