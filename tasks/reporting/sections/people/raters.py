"""Tables of the raters: severity and agreement with decisions, and means of models adjusted for severity."""

from collections.abc import Iterator

from gradebook.rubrics.statistics.agreement import Measure
from gradebook.tasks.agreement.raters import ModelMean, RaterRow, compare_raters
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.reporting.sections.people.agreement import rated_words
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import interval_words, score_words, signed_words

_IS_SHARED = "select count(distinct rater) > 1 as is_shared from latest_ratings"
_OF_RATERS = ("Ratings", "Severity", "With decisions", "With gold")
_OF_MODELS = ("Outputs", "Mean rating", "Adjusted", "95% interval")


def rater_tables(source: ReportSource) -> Iterator[Table]:
    """Raters, if there are several, and the models' means if severity is known. Reads latest_ratings."""
    if not source.rows(_IS_SHARED)[0]["is_shared"]:
        return
    found = compare_raters(source.lake, source.run_id)
    yield table_of("Raters", ("Rater",), _OF_RATERS, map(_rater_cells, found.rows))
    if any(each.severity for each in found.rows):
        caption = "Mean ratings, adjusted for the raters' severity"
        yield table_of(caption, ("Model",), _OF_MODELS, map(_model_cells, found.models))


def _rater_cells(row: RaterRow) -> tuple[str, ...]:
    severity = "–" if row.severity is None else signed_words(row.severity)
    return (row.rater, f"{row.rating_count:,}", severity, _share(row.decisions), _share(row.gold))


def _share(found: Measure) -> str:
    return f"{rated_words(found)} of {found.n:,}" if found.n else "–"


def _model_cells(row: ModelMean) -> tuple[str, ...]:
    mean = row.mean
    means = (score_words(mean.plain), score_words(mean.adjusted))
    return (row.model, f"{mean.n:,}", *means, mean.reason or interval_words(mean.ci_low, mean.ci_high))
