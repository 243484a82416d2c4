"""Pictures of means over time: what is drawn where, and in which colours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import Colour, draw, shortened, told_apart
from gradebook.tasks.reporting.source.dates import Moment, Moments
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import score_words

MOST_LABELS = 5
LABEL_LETTERS = 12
DODGE = 0.4  # of a place, that the models of one run share


@dataclass(frozen=True, slots=True)
class Series:
    """A model as the pictures have it. offset: how far its dots stand from their place, for dots not to hide others."""

    model: str
    label: str
    colour: Colour
    offset: float


def series_of(source: ReportSource) -> tuple[Series, ...]:
    """A line each model that a picture has room for, the one with the highest mean first."""
    colours: dict[str, Colour] = {}
    for group in source.drawn_groups:
        colours.setdefault(group.model, group.colour)
    labels, middle = told_apart(colours), (len(colours) - 1) / 2
    step = DODGE / max(len(colours), 2)
    return tuple(
        Series(model, label, colour, (number - middle) * step)
        for number, (label, (model, colour)) in enumerate(zip(labels, colours.items(), strict=True))
    )


def drawn_history(source: ReportSource, moments: Moments) -> Markup | None:
    """The means over time; None where no run has one."""
    series = series_of(source)
    by_model = {each.model: each for each in series}
    drawn = [moment for moment in moments.values() if moment.mean is not None and moment.model in by_model]
    if not drawn:
        return None
    present = [moment.place for moment in moments.values() if moment.run_id == source.run_id]
    last = max(moment.place for moment in moments.values()) + 0.5
    return draw(
        "history",
        {
            "rows": [_row(moments, moment, by_model) for moment in drawn],
            "breaks": list(_breaks(moments)),
            "labels": _labels(moments),
            "present": [{"from": min(present) - 0.5, "to": max(present) + 0.5}],
        },
        last=last,
        **named(series),
    )


def named(series: Sequence[Series]) -> Row:
    """What charts of these lines have by `$name`."""
    return {
        "series": [each.label for each in series],
        "colours": [each.colour for each in series],
        "legend": {"title": None, "symbolOpacity": 1} if len(series) > 1 else None,
    }


def _row(moments: Moments, moment: Moment, by_model: dict[str, Series]) -> Row:
    line = by_model[moment.model]
    before = moments[moment.before] if moment.is_joined and moment.before is not None else None
    interval = "" if moment.low is None else f", 95% interval {score_words(moment.low)} to {score_words(moment.high)}"
    checkpoint = "" if moment.checkpoint is None else f" @ {shortened(moment.checkpoint)}"
    return {
        "series": line.label,
        "place": moment.place + line.offset,
        "mean": moment.mean,
        "low": moment.low,
        "high": moment.high,
        "place_before": None if before is None else before.place + line.offset,
        "mean_before": None if before is None else before.mean,
        "tip": f"{line.label}{checkpoint} in {shortened(moment.run_id)}: {score_words(moment.mean)}{interval}",
    }


def _breaks(moments: Moments) -> Iterator[Row]:
    """A place each between two runs where something else changed, for any of the models."""
    found: dict[int, dict[str, None]] = {}
    for moment in moments.values():
        if moment.changes:
            found.setdefault(moment.place, {}).update(dict.fromkeys(moment.changes.values()))
    for place, changes in found.items():
        yield {"place": place - 0.5, "tip": f"not comparable: {'; '.join(map(shortened, changes))}"}


def _labels(moments: Moments) -> list[Row]:
    """What stands below the axis: the first place, the last one and some between, each in lines."""
    by_place: dict[int, list[Moment]] = {}
    for moment in moments.values():
        by_place.setdefault(moment.place, []).append(moment)
    last = max(by_place)
    count = min(MOST_LABELS, last)
    shown = sorted({1 + round(number * (last - 1) / max(count - 1, 1)) for number in range(count)})
    return [{"place": place, "lines": _label_lines(by_place[place])} for place in shown if place in by_place]


def _label_lines(together: Sequence[Moment]) -> list[str]:
    """The checkpoint where it is one, or else the time; and the day."""
    finished_at, checkpoints = together[0].finished_at, {moment.checkpoint for moment in together}
    checkpoint = checkpoints.pop() if len(checkpoints) == 1 else None
    day = "" if finished_at is None else f"{finished_at.day} {finished_at:%b}"
    time = "" if finished_at is None else f"{finished_at:%H:%M}"
    return [shortened(checkpoint, LABEL_LETTERS) if checkpoint else time, day]
