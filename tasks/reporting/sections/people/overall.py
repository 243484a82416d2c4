"""Overall ratings of people beside the weighted score of the same outputs."""

import numpy as np

from gradebook.rubrics.statistics.intervals import DIFFERENCES, mean_interval, measure_mean
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.reporting.source.rows_layout import short_names
from gradebook.tasks.system.number_format import difference_interval_words, score_words, signed_words

NUMBERS = ("Outputs", "Overall rating", "Weighted score", "Difference", "95% interval", "Correlation")


def overall_table(source: ReportSource) -> Table | None:
    """Table by model of the outputs with both; None without. Reads latest_ratings, which the agreement makes."""
    found: dict[Group, list[Row]] = {}
    for row in source.rows(query("reporting/overall_ratings"), run_id=source.run_id):
        found.setdefault(source.group_of(row), []).append(row)
    if not found:
        return None
    names = short_names(source.groups)
    cells = [(names[group], *_cells(found[group])) for group in source.groups if group in found]
    return table_of("Overall ratings of people beside the weighted score", ("Model",), NUMBERS, cells)


def _cells(rows: list[Row]) -> tuple[str, ...]:
    ratings, scores = (np.array([row[name] for row in rows], dtype=np.float64) for name in ("rating", "score"))
    _, cases = np.unique([row["case_id"] for row in rows], return_inverse=True)
    mean = measure_mean(scores - ratings, cases)
    interval = mean_interval(mean, bounds=DIFFERENCES)
    low, high = (None if np.isnan(end) else float(end) for end in (interval.low, interval.high))
    varies = min(np.ptp(ratings), np.ptp(scores)) > 0
    return (
        f"{len(rows):,}",
        score_words(float(ratings.mean())),
        score_words(float(scores.mean())),
        signed_words(float(mean.mean)),
        difference_interval_words(low, high),
        score_words(float(np.corrcoef(ratings, scores)[0, 1]) if varies else None),
    )
