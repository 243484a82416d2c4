"""Section "Criteria": by model, with heatmap, radar, redundancy and weak spots."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import cos, isnan, pi, sin
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.outcomes import Correlation, pearson, unique_shares
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import (
    counted,
    difference_interval_words,
    interval_words,
    rate_words,
    score_words,
    signed_words,
)
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.verdict import question_words
from gradebook.tasks.reporting.charts import Figure, anchor_of, draw, labels_of, shortened
from gradebook.tasks.reporting.report_source import Group, MeasuredCriterion, ReportSource, measured_criteria
from gradebook.tasks.reporting.sections.scores import weights_of

OWN = "per-case criteria"
NOWHERE = "without a category"


@dataclass(frozen=True, slots=True)
class HeatCell:
    """Number on a coloured ground. shade: 0..1, None without a number; is_loss: whether it lowers the score.

    note: remark under the number. link: address of its examples, None without examples.
    """

    words: str
    shade: str | None
    is_loss: bool
    note: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class HeatRow:
    """Row of a criterion. question: what it asks, short; mark: gate, penalty or None; weight: its share as text."""

    criterion_id: str
    question: str
    mark: str | None
    weight: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True)
class HeatGroup:
    """Criteria of a category. heading: None if no criterion of the map has a category."""

    heading: str | None
    rows: tuple[HeatRow, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Heat map. models: columns; has_weights: whether the first column shows weights; sums: rows at the foot."""

    caption: str
    models: tuple[str, ...]
    has_weights: bool
    groups: tuple[HeatGroup, ...]
    sums: tuple[tuple[str, tuple[str, ...]], ...] = ()


def means_map(criteria: Sequence[MeasuredCriterion], groups: Sequence[Group]) -> HeatMap:
    """Map of mean scores, 0..1."""
    return HeatMap(
        "Mean score by criterion and model",
        tuple(group.label for group in groups),
        has_weights=False,
        groups=_grouped(criteria, lambda criterion: tuple(_mean_cell(criterion, group) for group in groups)),
    )


def contributions_map(
    criteria: Sequence[MeasuredCriterion], groups: Sequence[Group], means: Sequence[float | None]
) -> HeatMap | None:
    """Map of the contribution of each weighted criterion to a model's mean; None if contributions have no sum.

    means: mean of each model, as in run_scores; differs from the sum of contributions if scores are missing.
    """
    weighted = [criterion for criterion in criteria if criterion.weight is not None]
    contributions = {
        (criterion.criterion_id, group): _contribution(criterion, group) for criterion in weighted for group in groups
    }
    sizes = [abs(value) for value in contributions.values() if value is not None]
    if not sizes:
        return None
    widest = max(sizes) or 1.0
    sums = [_sum([contributions[criterion.criterion_id, group] for criterion in weighted]) for group in groups]
    rows = [("sum", tuple(score_words(value) for value in sums))]
    if any(None not in pair and abs((pair[0] or 0) - (pair[1] or 0)) > 5e-4 for pair in zip(sums, means, strict=True)):
        is_clipped = any(total is not None and not -5e-4 <= total <= 1 + 5e-4 for total in sums)
        why = "clipped to 0..1" if is_clipped else "some with missing scores"
        rows.append((f"mean of the outputs' scores, {why}", tuple(score_words(mean) for mean in means)))
    return HeatMap(
        "Contribution of each criterion to the mean, with its weight",
        tuple(group.label for group in groups),
        has_weights=True,
        groups=_grouped(
            weighted,
            lambda criterion: tuple(
                _part_cell(contributions[criterion.criterion_id, group], widest) for group in groups
            ),
        ),
        sums=tuple(rows),
    )


def examples_link(criterion_id: str, group: Group) -> str:
    """Address of the examples of a criterion and a model on the page."""
    return f"#examples?criterion={quote(criterion_id, safe='')}&model={quote(group.label, safe='')}"


def _grouped(
    criteria: Sequence[MeasuredCriterion], cells_of: Callable[[MeasuredCriterion], tuple[HeatCell, ...]]
) -> tuple[HeatGroup, ...]:
    """Group adjacent criteria of one category."""
    has_headings = any(criterion.path or criterion.is_own for criterion in criteria)
    return tuple(
        HeatGroup(
            heading if has_headings else None, tuple(_heat_row(criterion, cells_of(criterion)) for criterion in members)
        )
        for heading, members in groupby(criteria, key=_heading)
    )


def _heading(criterion: MeasuredCriterion) -> str:
    return OWN if criterion.is_own else criterion.heading or NOWHERE


def _heat_row(criterion: MeasuredCriterion, cells: tuple[HeatCell, ...]) -> HeatRow:
    mark = "gate" if criterion.is_gate else "penalty" if criterion.is_penalty else None
    question = question_words(criterion.description)
    return HeatRow(criterion.criterion_id, question, mark, rate_words(criterion.weight), cells)


def _mean_cell(criterion: MeasuredCriterion, group: Group) -> HeatCell:
    row = criterion.row_of(group)
    if row is None or row["mean"] is None:
        note = None if row is None else f"none of {row['output_count']:,} scored"
        return HeatCell("–", None, is_loss=False, note=note)
    coverage = row["coverage_rate"]
    applied = f"of {counted(row['output_count'], 'output')}" if criterion.is_partial else None
    note = f"{rate_words(coverage)} scored" if coverage < 1 else applied
    link = examples_link(criterion.criterion_id, group)
    return HeatCell(score_words(row["mean"]), _shade(row["mean"]), criterion.is_penalty, note, link)


def _part_cell(contribution: float | None, widest: float) -> HeatCell:
    if contribution is None:
        return HeatCell("–", None, is_loss=False)
    is_loss = contribution < 0
    text = signed_words(contribution) if is_loss else score_words(contribution)
    return HeatCell(text, _shade(abs(contribution) / widest), is_loss)


def _contribution(criterion: MeasuredCriterion, group: Group) -> float | None:
    row = criterion.row_of(group)
    return None if row is None else row["contribution"]


def _sum(parts: Sequence[float | None]) -> float | None:
    values = [part for part in parts if part is not None]
    return sum(values) if len(values) == len(parts) else None


def _shade(value: float) -> str:
    return f"{min(max(value, 0.0), 1.0):.2f}"


FEWEST_AXES, MOST_AXES = 3, 12
RINGS = (0.25, 0.5, 0.75, 1.0)
LABELS_AT = 1.1  # radius of the labels, just outside the outermost ring
LINE_HEIGHT = 12
ONE_LINE = 14  # letters of a label; longer ones take two
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3], [12, 3, 3, 3])


def radar_of(criteria: Sequence[MeasuredCriterion], groups: Sequence[Group], model_count: int) -> Figure | str:
    """Draw the radar of the rubric's criteria, or return the reason why there is none. groups: models to draw."""
    scored = [criterion for criterion in criteria if any(criterion.mean_of(group) is not None for group in groups)]
    axes = [criterion for criterion in scored or criteria if not criterion.is_own]
    if not FEWEST_AXES <= len(axes) <= MOST_AXES:
        axis_words = counted(len(axes), "criterion", "criteria")
        axis_words += " with a score" if 0 < len(scored) < len(criteria) else ""
        return f"No radar chart: the rubric has {axis_words}; a radar needs {FEWEST_AXES} to {MOST_AXES}."
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
            "axes": [_axis(index, name, len(axes)) for index, name in enumerate(names)],
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
    return Figure("radar", title, _radar_sentence(axes, names, whole, len(groups)), svg, table)


def _label(axis: MeasuredCriterion, label: str) -> str:
    return f"1 − {label}" if axis.is_penalty else label


def _point(index: int, count: int, radius: float) -> tuple[float, float]:
    """Coordinates of a value on axis `place` of `count`, clockwise from the top."""
    angle = 2 * pi * index / count
    return radius * sin(angle), radius * cos(angle)


def _rings(count: int) -> Iterator[Row]:
    for radius in RINGS:
        for order in range(count + 1):
            x, y = _point(order, count, radius)
            yield {"radius": radius, "order": order, "x": x, "y": y}


def _axis(index: int, name: str, count: int) -> Row:
    x, y = _point(index, count, 1.0)
    text_x, text_y = _point(index, count, LABELS_AT)
    align = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
    baseline = "middle" if abs(y) < 0.5 else "line-bottom" if y > 0 else "line-top"
    lines = _in_two_lines(name)
    lift = (len(lines) - 1) * LINE_HEIGHT * {"middle": 0.5, "line-bottom": 1.0, "line-top": 0.0}[baseline]
    label_values = {
        "text": lines,
        "lift": -lift,
        "align": align,
        "baseline": baseline,
        "text_x": text_x,
        "text_y": text_y,
    }
    return {"x": x, "y": y, "zero": 0.0, "tip": name, **label_values}


def _in_two_lines(name: str) -> list[str]:
    """Split a long label between words, near its middle."""
    breaks = [position for position, letter in enumerate(name, start=1) if letter in " _-./:" and position < len(name)]
    if len(name) <= ONE_LINE or not breaks:
        return [name]
    middle = min(breaks, key=lambda position: abs(position - len(name) / 2))
    return [name[:middle].rstrip(), name[middle:]]


def _corners(group: Group, axes: Sequence[MeasuredCriterion], names: Sequence[str]) -> Iterator[Row]:
    """Corners of a model's polygon; the first is repeated at the end."""
    for order in range(len(axes) + 1):
        index = order % len(axes)
        merit = axes[index].merit_of(group)
        x, y = _point(index, len(axes), merit or 0.0)
        tip = f"{group.label}: {names[index]} {score_words(merit)}"
        yield {"model": group.label, "order": order, "x": x, "y": y, "tip": tip}


def _radar_sentence(
    axes: Sequence[MeasuredCriterion], names: Sequence[str], whole: Sequence[Group], drawn_count: int
) -> str:
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


def tradeoff_of(criteria: Sequence[MeasuredCriterion], groups: Sequence[Group]) -> Figure | None:
    """Draw the means of two criteria against each other, with the models that no other one beats on both.

    The two criteria are those on which models are most opposed: over all pairs of models of which each is better on
    one of them, the sum of the smaller of both differences. None if no two criteria oppose any models.
    """
    axes = [axis for axis in criteria if not axis.is_own and any(axis.merit_of(group) is not None for group in groups)]
    means = np.array(
        [[np.nan if (merit := axis.merit_of(group)) is None else merit for group in groups] for axis in axes],
        dtype=np.float64,
    )
    most, pair = 0.0, (0, 0)
    for first, second in combinations(range(min(len(axes), MOST_CRITERIA)), 2):
        sides = [np.subtract.outer(means[index], means[index]) for index in (first, second)]
        opposed = np.where(sides[0] * sides[1] < 0, np.minimum(abs(sides[0]), abs(sides[1])), 0.0)
        opposition = float(np.nansum(opposed))
        if opposition > most + 1e-12:
            most, pair = opposition, (first, second)
    if not most:
        return None
    x, y = means[pair[0]], means[pair[1]]
    scored = [index for index in range(len(groups)) if not np.isnan([x[index], y[index]]).any()]
    frontier = [
        index for index in scored if not any(_beats((x[other], y[other]), (x[index], y[index])) for other in scored)
    ]
    names = [_label(axes[index], shortened(axes[index].criterion_id)) for index in pair]
    rows = [
        {
            "name": groups[index].label,
            "x": float(x[index]),
            "y": float(y[index]),
            "tip": f"{groups[index].label}: {names[0]} {score_words(float(x[index]))}, "
            f"{names[1]} {score_words(float(y[index]))}",
        }
        for index in scored
    ]
    svg = draw(
        "tradeoff",
        {
            "rows": rows,
            "frontier": [rows[scored.index(index)] for index in sorted(frontier, key=lambda index: x[index])],
        },
        names=[groups[index].label for index in scored],
        colours=[groups[index].colour for index in scored],
        x_title=names[0],
        y_title=names[1],
    )
    title = "Trade-off between two criteria"
    best = ", ".join(groups[index].name for index in sorted(frontier, key=lambda index: -x[index]))
    sentence = (
        f"Models are most opposed on {names[0]} and {names[1]}. On the line, no other model is as good on both and "
        f"better on one: {best}. Means are drawn without their intervals."
    )
    cells = []
    for index in scored:
        means_words = score_words(float(x[index])), score_words(float(y[index]))
        cells.append((groups[index].name, *means_words, "yes" if index in frontier else "no"))
    return Figure("tradeoff", title, sentence, svg, table_of(title, ("Model",), (*names, "On the line"), cells))


def _beats(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether a model is at least as good on both criteria, and better on one."""
    return first[0] >= second[0] and first[1] >= second[1] and first != second


MOST_OUTPUTS = 5_000
MOST_CRITERIA = 30
MOST_PAIRS = 10
LEAST_OUTPUTS = 10
ALIKE = 0.8  # a correlation from which two criteria say much the same


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Sentences, and tables of the most alike pairs and of each criterion's own part."""

    sentences: tuple[str, ...]
    tables: tuple[Table, ...]


def read_redundancy(source: ReportSource) -> Redundancy | None:
    """Correlations of the criteria over outputs of the run, within each model; None with one criterion or few outputs.

    The correlation is Pearson's of the scores less the model's mean, so that differences between models don't count.
    """
    body = source.rubric_body
    names = [] if body is None else [criterion.id for criterion in rubric_from_body(body).criteria][:MOST_CRITERIA]
    if len(names) < 2:
        return None
    limits = {"run_id": source.run_id, "criteria": names, "most_count": MOST_OUTPUTS}
    rows = source.rows(query("reporting/criterion_cells"), **limits)
    outputs = {name: index for index, name in enumerate(dict.fromkeys(row["output_id"] for row in rows))}
    if len(outputs) < LEAST_OUTPUTS:
        return None
    names = [name for name in names if any(row["criterion_id"] == name for row in rows)]
    if len(names) < 2:
        return None
    scores, columns = np.full((len(outputs), len(names)), np.nan), {name: index for index, name in enumerate(names)}
    cases = np.zeros(len(outputs), dtype=np.int64)
    for row in rows:
        index = outputs[row["output_id"]]
        scores[index, columns[row["criterion_id"]]], cases[index] = row["deviation"], row["case_number"]
    constant = [name for name, column in columns.items() if _is_constant(scores[:, column])]
    pairs = _pairs(scores, cases, [name for name in names if name not in constant], columns)
    whole = scores[~np.isnan(scores).any(axis=1)]
    own_shares = unique_shares(whole).tolist()
    sentences = _sentences(names, constant, pairs, own_shares, len(whole))
    return Redundancy(tuple(sentences), tuple(_tables(names, pairs, own_shares)))


def _is_constant(scores: Floats) -> bool:
    present = scores[~np.isnan(scores)]
    return present.size > 0 and float(np.ptp(present)) <= 1e-9


def _pairs(
    scores: Floats, cases: NDArray[np.int64], names: Sequence[str], columns: dict[str, int]
) -> list[tuple[str, str, Correlation]]:
    """Most alike pairs first, with the interval of the first ones."""
    correlations = []
    for position, name in enumerate(names):
        for other in names[position + 1 :]:
            first, second = scores[:, columns[name]], scores[:, columns[other]]
            both = ~np.isnan(first + second)
            if both.sum() >= LEAST_OUTPUTS and not (_is_constant(first[both]) or _is_constant(second[both])):
                correlations.append((abs(float(np.corrcoef(first[both], second[both])[0, 1])), name, other))
    correlations.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    measured = []
    for _, name, other in correlations[:MOST_PAIRS]:
        first, second = scores[:, columns[name]], scores[:, columns[other]]
        both = ~np.isnan(first + second)
        measured.append((name, other, pearson(first[both], second[both], cases[both])))
    return measured


def _sentences(
    names: Sequence[str],
    constant: Sequence[str],
    pairs: Sequence[tuple[str, str, Correlation]],
    own_shares: Sequence[float],
    whole_count: int,
) -> list[str]:
    sentences = []
    if constant:
        verb = "never varies" if len(constant) == 1 else "never vary"
        sentences.append(
            f"{', '.join(constant)} {verb} within a model: the scores tell no two of its outputs apart by it."
        )
    alike = [(name, other, correlation) for name, other, correlation in pairs if correlation.value >= ALIKE]
    if alike:
        pair_words = "; ".join(f"{name} and {other} ({signed_words(found.value)})" for name, other, found in alike[:3])
        sentences.append(
            f"Much the same is asked by {pair_words}: one of them may do, or one judge's view colours both."
        )
    elif pairs:
        name, other, correlation = pairs[0]
        sentences.append(
            f"No two criteria say the same: the most alike are {name} and {other} ({signed_words(correlation.value)})."
        )
    shares = [(share, name) for share, name in zip(own_shares, names, strict=True) if not isnan(share)]
    if shares and min(shares)[0] < 1 - ALIKE**2:
        share, name = min(shares)
        sentences.append(f"{name} adds least: {rate_words(share)} of its variance is not in the other criteria.")
    if sentences:
        sentences.append(f"Over {counted(whole_count, 'output')} with all scores, less each model's mean.")
    return sentences


def _tables(
    names: Sequence[str], pairs: Sequence[tuple[str, str, Correlation]], own_shares: Sequence[float]
) -> list[Table]:
    cells = [
        (name, other, signed_words(correlation.value), difference_interval_words(*_ends(correlation)))
        for name, other, correlation in pairs
    ]
    share_cells = [
        (name, rate_words(None if isnan(share) else share)) for name, share in zip(names, own_shares, strict=True)
    ]
    tables = []
    if cells:
        tables.append(
            table_of("Most alike criteria", ("Criterion", "Criterion"), ("Correlation", "95% interval"), cells)
        )
    tables.append(table_of("Variance of its own", ("Criterion",), ("Variance not in the others",), share_cells))
    return tables


def _ends(correlation: Correlation) -> tuple[float | None, float | None]:
    return (correlation.interval.low, correlation.interval.high) if correlation.interval.is_known else (None, None)


MOST_SPOTS = 20
MOST_P = 0.05
SPOTS = f"""
select * exclude (run_id) from weak_spots where run_id = ? and p_adjusted <= {MOST_P}
order by gain desc nulls last, lift, criterion_id, model, checkpoint, slice_key, slice_value limit {MOST_SPOTS}
"""
_CASES = "select output_id, case_id from output_scores where run_id = ? and list_contains(?, output_id)"
_COUNTS = f"""
select count(*) filter (p_adjusted <= {MOST_P}) as spot_count, max(searched_count) as searched_count
from weak_spots where run_id = ?
"""


@dataclass(frozen=True, slots=True)
class WeakSpot:
    """Slice of a model's outputs on a criterion. cells: numbers as text; examples: pairs of anchor and case."""

    name: str
    criterion_id: str
    place: str
    cells: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class WeakSpots:
    """Weak spots with the largest possible gains, perhaps none, and sentences about the search."""

    sentence: str
    headings: tuple[str, ...]
    spots: tuple[WeakSpot, ...]


def read_weak_spots(source: ReportSource) -> WeakSpots | None:
    """Read the run's weak spots; None if nothing was searched, or by a version that did not test what it found."""
    (counts,) = source.rows(_COUNTS, source.run_id)
    if counts["searched_count"] is None:
        return None
    rows = source.rows(SPOTS, source.run_id)
    headings = ("Outputs", "Mean", "Interval", "Elsewhere", "Difference", "Estimate", "Possible gain")
    ids = [output_id for row in rows for output_id in row["example_ids"] or ()]
    cases = {row["output_id"]: row["case_id"] for row in source.rows(_CASES, source.run_id, ids)}
    sentence = _weak_spot_sentence(rows[0] if rows else None, counts["spot_count"], counts["searched_count"])
    return WeakSpots(sentence, headings, tuple(_spot(row, cases) for row in rows))


def _spot(row: Row, cases: Mapping[str, str]) -> WeakSpot:
    return WeakSpot(
        model_name(row),
        row["criterion_id"],
        slice_words(row),
        (
            f"{row['n']:,}",
            score_words(row["mean"]),
            interval_words(row["ci_low"], row["ci_high"]),
            score_words(row["rest_mean"]),
            signed_words(row["lift"]),
            signed_words(row["shrunk_lift"]),
            "gate" if row["gain"] is None else signed_words(row["gain"]),
        ),
        tuple((anchor_of(name), shortened(cases[name])) for name in row["example_ids"] or ()),
    )


def _weak_spot_sentence(row: Row | None, count: int, searched_count: int) -> str:
    """Sentences with the meaning of the first spot, if any, and the size of the search."""
    searched = f"{counted(searched_count, 'combination')} of a slice and a criterion"
    if row is None:
        return f"No slice does worse than the other outputs beyond chance. {searched} were compared."
    sentence = (
        f"{model_name(row)} has a mean of {score_words(row['mean'])} on {row['criterion_id']} "
        f"where {slice_words(row)}, and {score_words(row['rest_mean'])} elsewhere"
    )
    if row["gain"] is not None:
        sentence += f"; without the estimated difference the model's mean would be {score_words(row['gain'])} higher"
    spots = f" The table shows the first {MOST_SPOTS}." if count > MOST_SPOTS else ""
    return (
        f"{sentence}. {searched} were compared, and {count:,} found worse beyond chance: at most 5% of such findings "
        f"are due to chance on average. The estimates and intervals allow for the choice.{spots}"
    )


def slice_words(row: Row) -> str:
    """Slice of a row of weak_spots: "topic is 3"."""
    return f"{shortened(row['slice_key'])} is {shortened(row['slice_value'])}"


NUMBERS = ("Mean", "95% interval", "At threshold", "Coverage", "Weight", "Contribution")
_OWN_COUNT = "select count(distinct criterion_id) as own_count from case_criteria where run_id = ?"


@dataclass(frozen=True, slots=True)
class CriteriaContents:
    """Contents of the section. contributions: None if they have no sum, with the reason in no_sum.

    undrawn: sentences about models and criteria that the maps leave out. no_radar: reason why there is no radar.
    """

    means: HeatMap
    contributions: HeatMap | None
    no_sum: str | None
    sentence: str
    undrawn: tuple[str, ...]
    figures: tuple[Figure, ...]
    no_radar: str | None
    spots: WeakSpots | None
    redundancy: Redundancy | None
    table: Table


def read_criteria(source: ReportSource) -> CriteriaContents | None:
    """Read the rows of criterion_scores, in the rubric's order within categories; None if there are none."""
    criteria = measured_criteria(source)
    if not criteria:
        return None
    groups = source.drawn_groups
    means = {(row["model"], row["checkpoint"]): row["mean"] for row in source.summary.scores}
    contributions = contributions_map(criteria, groups, [means[group.model, group.checkpoint] for group in groups])
    radar = radar_of(criteria, groups, len(source.groups))
    drawn = (None if isinstance(radar, str) else radar, weights_of(criteria), tradeoff_of(criteria, groups))
    return CriteriaContents(
        means_map(criteria, groups),
        contributions,
        None if contributions else _no_sum(criteria),
        criteria_sentence(criteria, groups),
        tuple(_undrawn(source, criteria)),
        tuple(figure for figure in drawn if figure is not None),
        radar if isinstance(radar, str) else None,
        read_weak_spots(source),
        read_redundancy(source),
        _table(criteria, source.groups),
    )


def criteria_sentence(criteria: Sequence[MeasuredCriterion], groups: Sequence[Group]) -> str:
    """Sentences with the strongest and the weakest criterion, and the criterion on which models differ most."""
    scored = [(merits, criterion) for criterion in criteria if (merits := _merits(criterion, groups))]
    if not scored:
        return "No criterion has a score."
    averages = [(sum(merits.values()) / len(merits), criterion) for merits, criterion in scored]
    (low, weakest), (high, strongest) = (choose(averages, key=lambda entry: entry[0]) for choose in (min, max))
    over = f", over {len(groups)} models" if len(groups) > 1 else ""
    if (
        high - low < 5e-4
        and len(scored) == len(criteria) > 1
        and not any(criterion.is_penalty for criterion in criteria)
    ):
        sentence = f"Each criterion has a mean of {score_words(high)}{over}."
    elif len(scored) == 1:
        sentence = f"The only criterion with a score is {_with_mean(strongest, high)}{over}."
    else:
        sentence = f"The best mean is {_with_mean(strongest, high)}, the worst {_with_mean(weakest, low)}{over}."
    spans = [(max(merits.values()) - min(merits.values()), merits, criterion) for merits, criterion in scored]
    span, merits, widest = max(spans, key=lambda entry: entry[0])
    if span < 5e-4:
        return sentence
    best, worst = (choose(merits, key=lambda name: merits[name]) for choose in (max, min))
    ends = [f"{name} {score_words(1 - merits[name] if widest.is_penalty else merits[name])}" for name in (best, worst)]
    return f"{sentence} The models differ most on {widest.criterion_id}: {ends[0]}, {ends[1]}."


def _merits(criterion: MeasuredCriterion, groups: Sequence[Group]) -> dict[str, float]:
    merits = {group.name: criterion.merit_of(group) for group in groups}
    return {name: merit for name, merit in merits.items() if merit is not None}


def _with_mean(criterion: MeasuredCriterion, merit: float) -> str:
    if criterion.is_penalty:
        return f"{criterion.criterion_id} with {score_words(1 - merit)} (a penalty: lower is better)"
    return f"{criterion.criterion_id} with {score_words(merit)}"


def _no_sum(criteria: Sequence[MeasuredCriterion]) -> str:
    if any(criterion.is_own and not criterion.is_gate for criterion in criteria):
        return (
            "Input rows have weighted criteria of their own, so the contribution of a criterion differs by output and "
            "there is no common sum."
        )
    if not any(criterion.weight for criterion in criteria):
        return "No criterion of the rubric has a weight, so none contributes to a mean."
    if any(criterion.is_partial and criterion.weight for criterion in criteria):
        return (
            "Criteria with a weight apply to some outputs only, so the contribution of a criterion differs by output "
            "and there is no common sum."
        )
    return "No weighted criterion has a score, so none contributes to a mean."


def _undrawn(source: ReportSource, criteria: Sequence[MeasuredCriterion]) -> list[str]:
    """Sentences about models and criteria that the maps leave out."""
    sentences = []
    drawn_count, count = len(source.drawn_groups), len(source.groups)
    if drawn_count < count:
        sentences.append(
            f"The map shows the {drawn_count} of {count:,} models with the highest means; the table has all."
        )
    shown_count = sum(criterion.is_own for criterion in criteria)
    (counts,) = source.rows(_OWN_COUNT, source.run_id)
    if shown_count < counts["own_count"]:
        own_criteria = counted(counts["own_count"], "per-case criterion", "per-case criteria")
        sentences.append(f"Input rows define {own_criteria}; the map shows the {shown_count} that most outputs have.")
    return sentences


def _table(criteria: Sequence[MeasuredCriterion], groups: Sequence[Group]) -> Table:
    return table_of(
        "Each criterion by model",
        ("Criterion", "Model"),
        NUMBERS,
        (_cells(criterion, group) for criterion in criteria for group in groups if criterion.row_of(group)),
    )


def _cells(criterion: MeasuredCriterion, group: Group) -> tuple[str, ...]:
    row = criterion.row_of(group) or {}
    return (
        f"{criterion.criterion_id} (gate)" if criterion.is_gate else criterion.criterion_id,
        group.name,
        score_words(row["mean"]),
        interval_words(row["ci_low"], row["ci_high"]),
        rate_words(row["pass_rate"]),
        rate_words(row["coverage_rate"]),
        rate_words(row["weight"]),
        score_words(row["contribution"]),
    )
