"""Charts of means over time: lines, breaks, labels and colours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import Colour, distinct_labels, draw, shortened
from gradebook.tasks.reporting.source.dates import Point, Points
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import interval_words, score_words

MOST_LABELS = 5
LABEL_LETTERS = 12
DODGE = 0.4  # width over which the models of one run are spread, as a part of a place


@dataclass(frozen=True, slots=True)
class Series:
    """Line of a model. offset: horizontal shift of its dots, so that dots of one run do not hide each other."""

    model: str
    label: str
    colour: Colour
    offset: float


def series_of(source: ReportSource) -> tuple[Series, ...]:
    """Lines of the models that a picture has room for, highest mean first."""
    colours: dict[str, Colour] = {}
    for group in source.drawn_groups:
        colours.setdefault(group.model, group.colour)
    labels, middle = distinct_labels(colours), (len(colours) - 1) / 2
    step = DODGE / max(len(colours), 2)
    return tuple(
        Series(model, label, colour, (number - middle) * step)
        for number, (label, (model, colour)) in enumerate(zip(labels, colours.items(), strict=True))
    )


def drawn_history(source: ReportSource, points: Points) -> Markup | None:
    """Draw the means over time; None if no run has one."""
    series = series_of(source)
    by_model = {each.model: each for each in series}
    drawn = [point for point in points.values() if point.mean is not None and point.model in by_model]
    if not drawn:
        return None
    present = [point.place for point in points.values() if point.run_id == source.run_id]
    last = max(point.place for point in points.values()) + 0.5
    return draw(
        "history",
        {
            "rows": [_row(points, point, by_model) for point in drawn],
            "breaks": list(_breaks(points)),
            "labels": _labels(points),
            "present": [{"from": min(present) - 0.5, "to": max(present) + 0.5}],
        },
        last=last,
        **named(series),
    )


def named(series: Sequence[Series]) -> Row:
    """Values for `$name` in charts of these lines."""
    return {
        "series": [each.label for each in series],
        "colours": [each.colour for each in series],
        "legend": {"title": None, "symbolOpacity": 1} if len(series) > 1 else None,
    }


def _row(points: Points, point: Point, by_model: dict[str, Series]) -> Row:
    line = by_model[point.model]
    before = points[point.before] if point.is_joined and point.before is not None else None
    linked = points[point.before] if point.linked_mean is not None and point.before is not None else None
    interval = "" if point.low is None else f", 95% interval {interval_words(point.low, point.high)}"
    stopped = "" if point.stopped_at is None else f", stopped after {counted(point.stopped_at, 'case')}"
    checkpoint = "" if point.checkpoint is None else f" @ {shortened(point.checkpoint)}"
    return {
        "series": line.label,
        "place": point.place + line.offset,
        "mean": point.mean,
        "low": point.low,
        "high": point.high,
        "place_before": None if before is None else before.place + line.offset,
        "mean_before": None if before is None else before.mean,
        "place_linked": None if linked is None else linked.place + line.offset,
        "mean_linked": point.linked_mean,
        "tip": f"{line.label}{checkpoint} in {shortened(point.run_id)}: {score_words(point.mean)}{interval}{stopped}",
    }


def _breaks(points: Points) -> Iterator[Row]:
    """Marks between two runs at which something else changed, for any of the models."""
    found: dict[int, dict[str, None]] = {}
    for point in points.values():
        if point.changes:
            found.setdefault(point.place, {}).update(dict.fromkeys(point.changes.values()))
    for place, changes in found.items():
        yield {"place": place - 0.5, "tip": f"not comparable: {'; '.join(map(shortened, changes))}"}


def _labels(points: Points) -> list[Row]:
    """Labels of the axis: the first place, the last one and some between, each as lines of text."""
    by_place: dict[int, list[Point]] = {}
    for point in points.values():
        by_place.setdefault(point.place, []).append(point)
    last = max(by_place)
    count = min(MOST_LABELS, last)
    shown = sorted({1 + round(number * (last - 1) / max(count - 1, 1)) for number in range(count)})
    return [{"place": place, "lines": _label_lines(by_place[place])} for place in shown if place in by_place]


def _label_lines(together: Sequence[Point]) -> list[str]:
    """Lines of a label: the checkpoint if all points have the same one, else the time; then the day."""
    finished_at, checkpoints = together[0].finished_at, {point.checkpoint for point in together}
    checkpoint = checkpoints.pop() if len(checkpoints) == 1 else None
    day = "" if finished_at is None else f"{finished_at.day} {finished_at:%b}"
    time = "" if finished_at is None else f"{finished_at:%H:%M}"
    return [shortened(checkpoint, LABEL_LETTERS) if checkpoint else time, day]
