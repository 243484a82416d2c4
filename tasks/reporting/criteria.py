"""Where a model is strong and weak: criteria, their weights and what they contribute."""

from tasks.reporting.source import ReportSource
from tasks.requirements import Row


def read_criteria(source: ReportSource) -> dict[str, list[Row]]:
    """The rows of criterion_scores by criterion."""
    grouped: dict[str, list[Row]] = {}
    for row in source.summary.criteria:
        grouped.setdefault(row["criterion_id"], []).append(row)
    return grouped
