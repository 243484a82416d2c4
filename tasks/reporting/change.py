"""What changed: the run beside its baseline, another run, or its two best models beside each other."""

from dataclasses import dataclass

from tasks.comparing.rows import ComparedRow, worst_first
from tasks.reporting.source import ReportSource


@dataclass(frozen=True, slots=True)
class ChangeContents:
    """Each pair of models by its name, and its rows, what got worse first."""

    pairs: tuple[tuple[str, tuple[ComparedRow, ...]], ...]


def read_change(source: ReportSource) -> ChangeContents | None:
    """What the comparison found."""
    if source.comparison is None:
        return None
    return ChangeContents(
        tuple((pair.name, tuple(worst_first(pair.rows))) for pair in source.comparison.models if pair.rows)
    )
