"""How the scores spread: by category, by level, and how many outputs meet a threshold."""

from contextlib import suppress
from dataclasses import dataclass

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.reporting.drawing.figures import Figure
from gradebook.tasks.reporting.sections.spread.box_plots import read_boxes
from gradebook.tasks.reporting.sections.spread.levels import CategoryLevels, left_out_words, read_levels
from gradebook.tasks.reporting.sections.spread.thresholds import Thresholds, read_thresholds
from gradebook.tasks.reporting.source.report_source import ReportSource


@dataclass(frozen=True, slots=True)
class SpreadContents:
    """Each None or empty where there is nothing to show. thresholds: the one to be moved; boxes: by category.

    levels: the categories in depth, the weakest first; left_out: what they do not show, in words.
    """

    thresholds: Thresholds | None
    boxes: Figure | None
    levels: tuple[CategoryLevels, ...]
    left_out: str | None


def read_spread(source: ReportSource) -> SpreadContents | None:
    """How the scores spread: by category, by level, and how many outputs meet a threshold."""
    rubric = _read_rubric(source)
    thresholds, boxes, levels = read_thresholds(source, rubric), read_boxes(source), read_levels(source)
    if not thresholds and not boxes and not levels:
        return None
    return SpreadContents(thresholds, boxes, levels, left_out_words(source))


def _read_rubric(source: ReportSource) -> Rubric | None:
    """The run's rubric; None where the lake has none of it that this gradebook can read."""
    with suppress(RubricError):
        return None if source.rubric_body is None else rubric_from_body(source.rubric_body)
    return None
