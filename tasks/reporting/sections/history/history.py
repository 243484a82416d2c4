"""Section "Over time": mean scores of the run's models in earlier runs, joined by a line if comparable."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.sections.history.criterion_history import LEAST_CHANGE, criterion_figure
from gradebook.tasks.reporting.sections.history.history_figures import drawn_history, series_of
from gradebook.tasks.reporting.source.dates import Point, Points, read_criterion_means, read_points, stretch
from gradebook.tasks.reporting.source.report_source import MOST_DRAWN, ReportSource
from gradebook.tasks.system.number_format import interval_words, score_words, signed_words

MOST_NAMED = 3  # models in a sentence


@dataclass(frozen=True, slots=True)
class HistoryContents:
    """Charts of the means over time: overall and by criterion."""

    figures: tuple[Figure, ...]


def read_history(source: ReportSource) -> HistoryContents | None:
    """Read the history of the run's models; None if no model has an earlier point."""
    points = read_points(source)
    if not any(point.before for point in points.values()):
        return None
    svg = drawn_history(source, points)
    figures = (
        None
        if svg is None
        else Figure("history-means", "Mean score over time", _reading(source, points), svg, _table(points)),
        criterion_figure(source, points, read_criterion_means(source, points)),
    )
    return HistoryContents(tuple(figure for figure in figures if figure is not None))


def _reading(source: ReportSource, points: Points) -> str:
    """Sentences on the changes of the models with the highest means, and on the breaks between comparable runs."""
    present = [points[source.run_id, group.model, group.checkpoint] for group in source.groups]
    known = [point for point in present if point.mean is not None]
    words = [_path_words(stretch(points, point), _is_one_checkpoint(known, point)) for point in known[:MOST_NAMED]]
    if len(known) > MOST_NAMED:
        words.append(f"The table has {len(known) - MOST_NAMED:,} more.")
    if len(series_of(source)) < len({group.model for group in source.groups}):
        words.append(f"The picture shows the {MOST_DRAWN} models with the highest means.")
    return " ".join([*words, *_break_words(points)]) or "No run has a mean."


def _is_one_checkpoint(points: Sequence[Point], wanted: Point) -> bool:
    """Whether the run has only one checkpoint of the model."""
    return sum(point.model == wanted.model for point in points) == 1


def _path_words(path: Sequence[Point], is_one_checkpoint: bool) -> str:
    """Sentence on a model's change from its oldest comparable mean to its last."""
    last, scored = path[-1], [point for point in path if point.mean is not None]
    name = last.model if is_one_checkpoint or last.checkpoint is None else f"{last.model} @ {last.checkpoint}"
    mean = score_words(last.mean)
    if len(scored) < 2 or last.mean is None:
        return f"{name} has a mean of {mean}; no earlier run is comparable."
    first, before = scored[0], scored[-2]
    change, begin = last.mean - (first.mean or 0.0), score_words(first.mean)
    is_still = begin == mean or abs(change) < LEAST_CHANGE
    way = "stayed at" if is_still else "rose from" if change > 0 else "fell from"
    words = f"{name} {way} {begin} ({_when(first, last)})"
    words += "" if is_still else f" to {mean} ({_when(last, first)})"
    if len(scored) == 2:
        return f"{words}."
    return f"{words}; the last change is {signed_words(last.mean - (before.mean or 0.0))}."


def _when(point: Point, other: Point) -> str:
    """Name of a point: its run, or its checkpoint if both points are of one run."""
    return point.run_id if point.run_id != other.run_id else point.checkpoint or point.run_id


def _break_words(points: Points) -> Iterator[str]:
    """Sentence on the breaks, newest first; a change shared by several models appears once."""
    newest_first = reversed(list(points.values()))
    found = dict.fromkeys((point.run_id, _change_words(point)) for point in newest_first if point.changes)
    named = [f"{words} at {run_id}" for run_id, words in list(found)[:MOST_NAMED]]
    if named:
        more = f", and at {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        yield f"Not joined where something else changed: {'; '.join(named)}{more}."


def _change_words(point: Point) -> str:
    return " and ".join(point.changes.values())


def _table(points: Points) -> Table:
    """Table of all points, newest first."""
    return table_of(
        "Means over time, newest first; change: since the run before, if the two are comparable",
        ("Run", "Finished, UTC", "Model", "Checkpoint", "Rubric", "Judge", "What else changed"),
        ("Mean", "95% interval", "Change", "Scored"),
        (_cells(points, point) for point in reversed(list(points.values()))),
    )


def _cells(points: Points, point: Point) -> tuple[str, ...]:
    earlier = None if point.before is None or point.changes else points[point.before].mean
    change = None if point.mean is None or earlier is None else point.mean - earlier
    interval = interval_words(point.low, point.high)
    return (
        point.run_id,
        "" if point.finished_at is None else point.finished_at.strftime("%Y-%m-%d %H:%M"),
        point.model,
        point.checkpoint or "",
        point.rubric_version,
        point.judge or "none",
        _change_words(point),
        score_words(point.mean),
        interval,
        signed_words(change),
        f"{point.n:,}",
    )
