"""Radar chart of criteria: one polygon per model; better scores are farther from the centre."""

from collections.abc import Iterator, Sequence
from math import cos, pi, sin

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import draw, labels_of
from gradebook.tasks.reporting.drawing.figures import Figure, table_of
from gradebook.tasks.reporting.source.criteria_tree import MeasuredCriterion
from gradebook.tasks.reporting.source.report_source import Group
from gradebook.tasks.system.number_format import score_words

FEWEST_AXES, MOST_AXES = 3, 12
RINGS = (0.25, 0.5, 0.75, 1.0)
LABELS_AT = 1.1  # radius of the labels, just outside the outermost ring
LINE_HEIGHT = 12
ONE_LINE = 14  # letters of a label; longer ones take two
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3], [12, 3, 3, 3])


def radar_of(criteria: Sequence[MeasuredCriterion], groups: Sequence[Group], model_count: int) -> Figure | str:
    """Draw the radar of the rubric's criteria, or return the reason why there is none. groups: models to draw."""
    axes = [criterion for criterion in criteria if not criterion.is_own]
    if not FEWEST_AXES <= len(axes) <= MOST_AXES:
        found = counted(len(axes), "criterion", "criteria")
        return f"No radar chart: the rubric has {found}; a radar needs {FEWEST_AXES} to {MOST_AXES}."
    if model_count > len(groups):
        return f"No radar chart: the run has {model_count:,} models; a radar shows at most {len(groups)}."
    whole = [group for group in groups if all(axis.mean_of(group) is not None for axis in axes)]
    if not whole:
        return "No radar chart: no model has a score on every criterion."
    labels = labels_of(axis.criterion_id for axis in axes)
    names = [_label(axis, labels[axis.criterion_id]) for axis in axes]
    svg = draw(
        "radar",
        {
            "rings": list(_rings(len(axes))),
            "axes": [_axis(place, name, len(axes)) for place, name in enumerate(names)],
            "corners": [corner for group in whole for corner in _corners(group, axes, names)],
        },
        models=[group.label for group in whole],
        colours=[group.colour for group in whole],
        shapes=list(SHAPES[: len(whole)]),
        dashes=list(DASHES[: len(whole)]),
    )
    title = "Criteria at a glance"
    table = table_of(
        title,
        ("Criterion",),
        [group.name for group in whole],
        (
            (name, *(score_words(axis.merit_of(group)) for group in whole))
            for name, axis in zip(names, axes, strict=True)
        ),
    )
    return Figure("radar", title, _reading(axes, names, whole, len(groups)), svg, table)


def _label(axis: MeasuredCriterion, label: str) -> str:
    return f"1 − {label}" if axis.is_penalty else label


def _point(place: int, count: int, radius: float) -> tuple[float, float]:
    """Coordinates of a value on axis `place` of `count`, clockwise from the top."""
    angle = 2 * pi * place / count
    return radius * sin(angle), radius * cos(angle)


def _rings(count: int) -> Iterator[Row]:
    for radius in RINGS:
        for order in range(count + 1):
            x, y = _point(order, count, radius)
            yield {"radius": radius, "order": order, "x": x, "y": y}


def _axis(place: int, name: str, count: int) -> Row:
    x, y = _point(place, count, 1.0)
    text_x, text_y = _point(place, count, LABELS_AT)
    align = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
    baseline = "middle" if abs(y) < 0.5 else "line-bottom" if y > 0 else "line-top"
    lines = _in_two_lines(name)
    lift = (len(lines) - 1) * LINE_HEIGHT * {"middle": 0.5, "line-bottom": 1.0, "line-top": 0.0}[baseline]
    named = {"text": lines, "lift": -lift, "align": align, "baseline": baseline, "text_x": text_x, "text_y": text_y}
    return {"x": x, "y": y, "zero": 0.0, "tip": name, **named}


def _in_two_lines(name: str) -> list[str]:
    """Split a long label between words, near its middle."""
    breaks = [place for place, letter in enumerate(name, start=1) if letter in " _-./:" and place < len(name)]
    if len(name) <= ONE_LINE or not breaks:
        return [name]
    middle = min(breaks, key=lambda place: abs(place - len(name) / 2))
    return [name[:middle].rstrip(), name[middle:]]


def _corners(group: Group, axes: Sequence[MeasuredCriterion], names: Sequence[str]) -> Iterator[Row]:
    """Corners of a model's polygon; the first is repeated at the end."""
    for order in range(len(axes) + 1):
        place = order % len(axes)
        merit = axes[place].merit_of(group)
        x, y = _point(place, len(axes), merit or 0.0)
        tip = f"{group.label}: {names[place]} {score_words(merit)}"
        yield {"model": group.label, "order": order, "x": x, "y": y, "tip": tip}


def _reading(axes: Sequence[MeasuredCriterion], names: Sequence[str], whole: Sequence[Group], drawn_count: int) -> str:
    """Sentences with the criterion nearest to the centre, and the number of criteria led by the first model."""
    lows = [(min(axis.merit_of(group) or 0.0 for group in whole), name) for axis, name in zip(axes, names, strict=True)]
    low, weakest = min(lows)
    sentence = f"The rim is a mean score of 1. Nearest to the centre is {weakest} with {score_words(low)}."
    if len(whole) > 1:
        first = whole[0]
        led = sum(
            all((axis.merit_of(first) or 0.0) > (axis.merit_of(group) or 0.0) for group in whole[1:]) for axis in axes
        )
        sentence += f" {first.name} leads on {led} of {counted(len(axes), 'criterion', 'criteria')}."
    if len(whole) < drawn_count:
        sentence += f" Not drawn for lack of a score on some criterion: {counted(drawn_count - len(whole), 'model')}."
    return sentence
