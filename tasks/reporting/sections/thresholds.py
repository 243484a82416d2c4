"""Outputs that would pass another threshold than the one of the rubric."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise

from markupsafe import Markup

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.statistics.rules import OVERALL
from gradebook.rubrics.text.tables import table_of
from gradebook.rubrics.text.wording import counted, score_words, share_words
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.charts import Figure, draw
from gradebook.tasks.reporting.lanes import lane_names, short_names
from gradebook.tasks.reporting.rendering import page_values
from gradebook.tasks.reporting.report_source import Group, ReportSource

STEP = 0.005
MOST_STEPS = 1000
DIGITS = 9  # of a threshold; rounding to them changes less than the rounding error of a float sum


@dataclass(frozen=True, slots=True)
class Grid:
    """Equidistant thresholds. low: the first; count: their number; start: index of the threshold shown first."""

    low: float
    step: float
    count: int
    start: int

    def at(self, index: int) -> float:
        """Threshold at an index, from 0."""
        return round(self.low + index * self.step, DIGITS)

    @property
    def words(self) -> list[str]:
        """All thresholds as text."""
        return [score_words(self.at(index)) for index in range(self.count)]


def grid_of(lowest: float, highest: float, start: float) -> Grid:
    """Grid over a range of scores that contains `start`, in steps of 0.005, or wider if there would be too many."""
    low, high = min(lowest, start), max(highest, start)
    step = STEP * max(math.ceil((high - low) / (STEP * MOST_STEPS)), 1)
    below = math.ceil((start - low) / step - 1e-6)
    above = math.ceil((high - start) / step - 1e-6)
    if below + above == 0:  # all outputs have the same score
        below = 10
    return Grid(round(start - below * step, DIGITS), step, below + above + 1, below)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Number of a model's outputs that meet each threshold of a grid. n: outputs with a score; counts: by index.

    colour: name in pages/theme.yaml. is_baseline: whether the outputs are those of the baseline run.
    """

    name: str
    colour: str
    is_baseline: bool
    n: int
    counts: tuple[int, ...]

    def share(self, index: int) -> str:
        """Share of outputs that meet the threshold at an index, as text."""
        return share_words(self.counts[index], self.n)


def counts_met(grid: Grid, rows: Iterable[Row]) -> tuple[int, ...]:
    """Counts of a `Meeting`. rows: of one model, from sql/queries/reporting/steps_met.sql."""
    last_met = [0] * grid.count
    for row in rows:
        if row["step"] >= 0:
            last_met[min(row["step"], grid.count - 1)] += row["n"]
    return tuple(accumulate(reversed(last_met)))[::-1]


def meeting_words(grid: Grid, meetings: Sequence[Meeting], index: int) -> str:
    """Sentence about a threshold: the two models with the largest shares, or a single model and its baseline.

    The page's script writes the same sentence when the threshold moves.
    """
    scored = [meeting for meeting in meetings if meeting.n]
    of_run = [meeting for meeting in scored if not meeting.is_baseline]
    best_first = sorted(of_run, key=lambda meeting: -meeting.counts[index] / meeting.n)
    best, *rest = best_first if len(of_run) > 1 else [*of_run, *(meeting for meeting in scored if meeting.is_baseline)]
    sentence = f"{best.share(index)} of the outputs of {best.name} meet {grid.words[index]}"
    return f"{sentence}, {rest[0].share(index)} of those of {rest[0].name}." if rest else f"{sentence}."


MOST_POINTS = 400  # of a drawn curve; counts use all scores
TABLE_STEPS = 20
LETTER_UNITS = 5.8
_SCORES = "select model, checkpoint, score, n, share from score_distribution where run_id = ? order by score"


@dataclass(frozen=True, slots=True)
class Plot:
    """Position of the curves within the whole picture, in its units."""

    left: float
    top: float
    width: float
    height: float
    whole_width: float
    whole_height: float

    @property
    def bottom(self) -> float:
        """Vertical position of the axis."""
        return self.top + self.height

    def x(self, grid: Grid, index: int) -> float:
        """Horizontal position of a threshold."""
        return round(self.left + self.width * index / (grid.count - 1), 2)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Movable threshold. figure: the curves; pass_threshold: that of the rubric, None if it has none."""

    figure: Figure
    plot: Plot
    grid: Grid
    meetings: tuple[Meeting, ...]
    pass_threshold: float | None

    @property
    def sentence(self) -> str:
        """Sentence about the initial threshold."""
        return meeting_words(self.grid, self.meetings, self.grid.start)

    @property
    def counts(self) -> Row:
        """Counts for the page's script."""
        return {
            "thresholds": self.grid.words,
            "meetings": [
                {"name": meeting.name, "isBaseline": meeting.is_baseline, "n": meeting.n, "counts": meeting.counts}
                for meeting in self.meetings
            ],
        }


@dataclass(frozen=True, slots=True)
class _Curve:
    """Distribution of a model's scores in a run. scores: rows of score_distribution."""

    name: str
    group: Group
    run_id: str
    model: str
    checkpoint: str | None
    is_baseline: bool
    scores: tuple[Row, ...]

    @property
    def n(self) -> int:
        return int(sum(row["n"] for row in self.scores))

    def reached_by(self, share: float) -> float:
        """Highest score that at least this share (above 0) of the outputs reaches."""
        below = [0.0, *(row["share"] for row in self.scores[:-1])]
        return float(
            max(row["score"] for row, less in zip(self.scores, below, strict=True) if 1 - less >= share - 1e-9)
        )


def read_thresholds(source: ReportSource, rubric: Rubric | None) -> Thresholds | None:
    """Read curves and counts of all models and of a comparable baseline; None without scores."""
    curves = [*_own_curves(source), *_baseline_curves(source)]
    scored = [curve for curve in curves if curve.scores]
    if not any(not curve.is_baseline for curve in scored):
        return None
    pass_threshold = None if rubric is None else rubric.pass_threshold
    start = _median(scored) if pass_threshold is None else pass_threshold
    ends = [curve.scores[end]["score"] for curve in scored for end in (0, -1)]
    grid = grid_of(min(ends), max(ends), start)
    meetings = tuple(_meetings(source, grid, curves))
    figure = _figure(source, grid, curves, meetings)
    if rubric is not None and (pass_words := _pass_words(rubric)):
        figure = replace(figure, sentence=f"{figure.sentence} {pass_words}")
    return Thresholds(figure, plot_of_curves(), grid, meetings, pass_threshold)


def _pass_words(rubric: Rubric) -> str | None:
    """Sentence on the requirements of a pass besides the overall score; None without any."""
    needs = ["each gate"] if any(criterion.gate for criterion in rubric.criteria) else []
    needs += ["each criterion's threshold"] if rubric.require_thresholds else []
    return f"To pass, an output has to meet {' and '.join(needs)} too, so pass rates may be lower." if needs else None


@cache
def plot_of_curves() -> Plot:
    """Position of the curves, as fixed in the chart's specification."""
    chart = page_values("charts/cdf.yaml")
    width, height, room = chart["width"], chart["height"], chart["padding"]
    whole = room["left"] + width + room["right"], room["top"] + height + room["bottom"]
    return Plot(room["left"], room["top"], width, height, *whole)


def _own_curves(source: ReportSource) -> Iterator[_Curve]:
    rows = source.rows(_SCORES, source.run_id)
    for group, name in short_names(source.groups).items():
        scores = _of(rows, group.model, group.checkpoint)
        yield _Curve(name, group, source.run_id, group.model, group.checkpoint, is_baseline=False, scores=scores)


def _baseline_curves(source: ReportSource) -> Iterator[_Curve]:
    """Curves of the baseline's models, each in the colour of the model that it is compared with."""
    comparison = source.comparison
    if comparison is None or comparison.banner is not None or comparison.baseline_run_id == source.run_id:
        return
    rows, seen = source.rows(_SCORES, comparison.baseline_run_id), set()
    for row in comparison.figures:
        model, checkpoint = row["baseline_model"], row["baseline_checkpoint"]
        if row["scope"] != OVERALL or (model, checkpoint) in seen:
            continue
        seen.add((model, checkpoint))
        name = f"{model_name({'model': model, 'checkpoint': checkpoint})} in {comparison.baseline_run_id}"
        scores = _of(rows, model, checkpoint)
        yield _Curve(
            name, source.group_of(row), comparison.baseline_run_id, model, checkpoint, is_baseline=True, scores=scores
        )


def _of(rows: Iterable[Row], model: str, checkpoint: str | None) -> tuple[Row, ...]:
    return tuple(row for row in rows if (row["model"], row["checkpoint"]) == (model, checkpoint))


def _median(curves: Sequence[_Curve]) -> float:
    """Median score of the run's outputs, rounded down to a step of the grid."""
    scores = sorted((row["score"], row["n"]) for curve in curves if not curve.is_baseline for row in curve.scores)
    up_to = accumulate(n for _, n in scores)
    half = sum(n for _, n in scores) / 2
    median = next(score for (score, _), count in zip(scores, up_to, strict=True) if count >= half)
    return float(math.floor(median / STEP + 1e-6) * STEP)


def _meetings(source: ReportSource, grid: Grid, curves: Sequence[_Curve]) -> Iterator[Meeting]:
    rows = {
        run_id: source.rows(query("reporting/steps_met"), run_id=run_id, low=grid.low, step=grid.step)
        for run_id in {curve.run_id for curve in curves}
    }
    for curve in curves:
        counts = counts_met(grid, _of(rows[curve.run_id], curve.model, curve.checkpoint))
        yield Meeting(curve.name, curve.group.colour, curve.is_baseline, curve.n, counts)


def _figure(source: ReportSource, grid: Grid, curves: Sequence[_Curve], meetings: Sequence[Meeting]) -> Figure:
    indices = range(grid.start % (stride := max(grid.count // TABLE_STEPS, 1)), grid.count, stride)
    table = table_of(
        "Share of outputs that meet a threshold",
        (),
        ("At least", *(meeting.name for meeting in meetings)),
        ((score_words(grid.at(index)), *(meeting.share(index) for meeting in meetings)) for index in indices),
    )
    sentence = _sentence(source, [curve for curve in curves if curve.scores])
    return Figure("threshold", "How many outputs meet a threshold", sentence, _drawn(source, grid, curves), table)


def _drawn(source: ReportSource, grid: Grid, curves: Sequence[_Curve]) -> Markup:
    groups = source.drawn_groups
    drawn = [curve for curve in curves if curve.scores and curve.group in groups]
    run_curves = [curve for curve in drawn if not curve.is_baseline]
    names = lane_names(groups)
    labels = [_label(grid, curve, names[curve.group], index, len(run_curves)) for index, curve in enumerate(run_curves)]
    return draw(
        "cdf",
        {
            "rows": [row | {"curve": i} for i, curve in enumerate(drawn) for row in _points(grid, curve)],
            "labels": labels,
        },
        ends=[grid.at(0), grid.at(grid.count - 1)],
        curves=[*range(len(drawn))],
        colours=[curve.group.colour for curve in drawn],
    )


def _points(grid: Grid, curve: _Curve) -> Iterator[Row]:
    """Corners of a curve from left to right; close corners are merged."""
    kind = {"kind": "baseline" if curve.is_baseline else "run"}
    ends = grid.at(0), grid.at(grid.count - 1)
    bin_size = (ends[1] - ends[0]) / MOST_POINTS
    yield kind | {"score": ends[0], "share": 1.0}
    for row, following in pairwise([*curve.scores, {"score": math.inf}]):
        if math.floor(row["score"] / bin_size) != _bin(following["score"], bin_size):
            yield kind | {"score": row["score"], "share": max(1.0 - row["share"], 0.0)}
    yield kind | {"score": ends[1], "share": 0.0 if curve.scores[-1]["score"] <= ends[1] else None}


def _bin(score: float, size: float) -> float:
    return score if math.isinf(score) else math.floor(score / size)


def _label(grid: Grid, curve: _Curve, name: str, index: int, count: int) -> Row:
    """Label of a curve, at a height of its own: above the curve for the best models, below it for the others.

    index: index of the curve among `count` curves. Curves fall, so the right side of a curve is above it.
    """
    share = 0.9 - 0.8 * index / (count - 1) if count > 1 else 0.6
    score = curve.reached_by(share)
    x = (score - grid.at(0)) / (grid.at(grid.count - 1) - grid.at(0)) * plot_of_curves().width
    room = plot_of_curves().width - x if index < count / 2 else x
    is_right = (index < count / 2) == (room > len(name) * LETTER_UNITS + 8)
    return {"score": score, "share": share, "align": "left" if is_right else "right", "text": name}


def _sentence(source: ReportSource, curves: Sequence[_Curve]) -> str:
    """Sentence with the score that half of the outputs reach, for the first and the last model."""
    run_curves = [curve for curve in curves if not curve.is_baseline]
    sentence = (
        f"Half of the outputs of {run_curves[0].name} score at least {score_words(run_curves[0].reached_by(0.5))}"
    )
    if len(run_curves) > 1:
        sentence += f", half of those of {run_curves[-1].name} at least {score_words(run_curves[-1].reached_by(0.5))}"
    baselines = [curve for curve in curves if curve.is_baseline]
    sentence += f". Dashed: the baseline {baselines[0].run_id}." if baselines else "."
    if unscored := sum(row["output_count"] - row["n"] for row in source.summary.scores):
        sentence += f" Not counted: {counted(unscored, 'output')} without a score."
    if len(source.groups) > len(source.drawn_groups):
        sentence += f" The picture shows {len(source.drawn_groups)} of {len(source.groups)} models, the tables all."
    return sentence
