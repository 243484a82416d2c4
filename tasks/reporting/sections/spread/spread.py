"""Section "Spread": outputs that meet a threshold, box plots by category, and shares of levels."""

from contextlib import suppress
from dataclasses import dataclass

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.reporting.drawing.figures import Figure
from gradebook.tasks.reporting.sections.spread.box_plots import read_boxes
from gradebook.tasks.reporting.sections.spread.levels import CategoryLevels, left_out_words, read_levels
from gradebook.tasks.reporting.sections.spread.outliers import Outliers, read_outliers
from gradebook.tasks.reporting.sections.spread.thresholds import Thresholds, read_thresholds
from gradebook.tasks.reporting.source.report_source import ReportSource


@dataclass(frozen=True, slots=True)
class SpreadContents:
    """Contents of the section; a part is None or empty if there is nothing to show. boxes: box plots by category.

    levels: detailed views of the categories, weakest first. left_out: sentence about criteria that are not shown.
    """

    thresholds: Thresholds | None
    boxes: Figure | None
    outliers: tuple[Outliers, ...]
    levels: tuple[CategoryLevels, ...]
    left_out: str | None


def read_spread(source: ReportSource) -> SpreadContents | None:
    """Read the spread of scores; None without scores."""
    rubric = _read_rubric(source)
    thresholds, boxes, levels = read_thresholds(source, rubric), read_boxes(source), read_levels(source)
    if not thresholds and not boxes and not levels:
        return None
    return SpreadContents(thresholds, boxes, read_outliers(source), levels, left_out_words(source))


def _read_rubric(source: ReportSource) -> Rubric | None:
    """Read the run's rubric; None if the lake lacks it or this version of gradebook can't read it."""
    with suppress(RubricError):
        return None if source.rubric_body is None else rubric_from_body(source.rubric_body)
    return None
