"""Outliers of the box plots: outputs far outside the middle half of their model's scores."""

from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.charts import shortened
from gradebook.tasks.reporting.drawing.figures import anchor_of
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.reporting.source.rows_layout import short_names
from gradebook.tasks.system.number_format import score_words

MOST_OUTLIERS = 8  # named of a model


@dataclass(frozen=True, slots=True)
class Outliers:
    """Outliers of a model: their number, and the farthest as anchor, case and score."""

    words: str
    outputs: tuple[tuple[str, str, str], ...]


def read_outliers(source: ReportSource) -> tuple[Outliers, ...]:
    """Outliers by model, those of the best model first."""
    found: dict[Group, list[Row]] = {}
    for row in source.rows(query("reporting/outliers"), run_id=source.run_id, most_count=MOST_OUTLIERS):
        found.setdefault(source.group_of(row), []).append(row)
    names = short_names(source.groups)
    return tuple(
        Outliers(
            f"{names[group]}: {counted(found[group][0]['outlier_count'], 'outlier')}",
            tuple(
                (anchor_of(row["output_id"]), shortened(row["case_id"]), score_words(row["score"]))
                for row in found[group]
            ),
        )
        for group in source.groups
        if group in found
    )
