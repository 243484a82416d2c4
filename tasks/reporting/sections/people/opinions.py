"""Charts of judge noise: replicates of a judge, levels in reverse order (position-bias control), several judges."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.reporting.drawing.charts import draw, shortened
from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import rate_words, sqrt_words

MOST_CRITERIA = 12  # in one picture
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")
_NUMBERS = ("Outputs", "Opinions", "Output sd", "Judge sd", "Noise share", "Flips", "Swap flips", "Agreement", "Votes")


@dataclass(frozen=True, slots=True)
class _Rate:
    """Chart of a rate in judge_noise. is_high_bad: whether high values are the ones to look at."""

    column: str
    id: str
    title: str
    axis: str
    reading: str  # sentence on the worst row, with {rate}, {criterion} and {model}
    is_high_bad: bool = True


_RATES = (
    _Rate(
        "flip_rate",
        "people-flips",
        "How often the judge contradicts itself",
        "pairs of replies with different levels",
        "Highest flip rate: two replies to the same question differ in {rate} of the pairs on {criterion} of {model}",
    ),
    _Rate(
        "swap_flip_rate",
        "people-swaps",
        "How often the order of the levels decides",
        "replies with another level in reverse order",
        "Highest rate: with the levels in reverse order, the level differs in {rate} on {criterion} of {model}",
    ),
    _Rate(
        "agreement_rate",
        "people-judges",
        "How often two judges gave the same level",
        "pairs of judges with the same level",
        "Lowest rate: two judges gave the same level in {rate} of the pairs on {criterion} of {model}",
        is_high_bad=False,
    ),
    _Rate(
        "judge_part",
        "people-noise",
        "How much of the scores' variance is judge noise",
        "judge noise as a part of the variance",
        "Highest share: {rate} of the variance of single scores on {criterion} of {model} is judge noise, not a "
        "difference between outputs",
    ),
)


def noise_figures(source: ReportSource) -> tuple[Figure, ...]:
    """Draw each known rate; no figures if the judge gave one opinion of each output."""
    rows = [row | {"judge_part": judge_part(row)} for row in source.summary.noise]
    figures = (_figure(source, rate, [row for row in rows if row[rate.column] is not None]) for rate in _RATES)
    return tuple(figure for figure in figures if figure is not None)


def judge_part(row: Row) -> float | None:
    """Share (0..1) of judge noise in the variance of single scores; None if unknown, or if all scores are equal."""
    if row["output_variance"] is None or row["judge_variance"] is None:
        return None
    total = row["output_variance"] + row["judge_variance"]
    return row["judge_variance"] / total if total else None


def noise_table(rows: Sequence[Row]) -> Table:
    """Table of the rows of judge_noise."""
    return table_of("Agreement of opinions", ("Criterion", "Model"), _NUMBERS, map(_cells, rows))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["criterion_id"],
        model_name(row),
        f"{row['n']:,}",
        f"{row['opinion_count']:,}",
        sqrt_words(row["output_variance"]),
        sqrt_words(row["judge_variance"]),
        rate_words(judge_part(row)),
        rate_words(row["flip_rate"]),
        rate_words(row["swap_flip_rate"]),
        rate_words(row["agreement_rate"]),
        votes_words(row["effective_votes"]),
    )


def votes_words(votes: float | None) -> str:
    """Effective number of independent judges, as text."""
    return "–" if votes is None else f"{votes:.2f}"


def _figure(source: ReportSource, rate: _Rate, rows: list[Row]) -> Figure | None:
    ranked = sorted(rows, key=lambda row: (row[rate.column] * (-1 if rate.is_high_bad else 1), row["criterion_id"]))
    criteria = list(dict.fromkeys(row["criterion_id"] for row in ranked))
    drawn = [row for row in ranked if source.group_of(row) in source.drawn_groups]
    marks = [_mark(source, rate, row) for row in drawn if row["criterion_id"] in criteria[:MOST_CRITERIA]]
    if not marks:
        return None
    groups = [group for group in source.drawn_groups if any(mark["model"] == group.label for mark in marks)]
    names = list(dict.fromkeys(mark["criterion"] for mark in marks))
    svg = draw(
        "noise_rates",
        {"rows": marks},
        criteria=names,
        models=[group.label for group in groups],
        colours=[group.colour for group in groups],
        shapes=list(SHAPES[: len(groups)]),
        title=rate.axis,
        height=max(60, 26 * len(names)),
    )
    numbers = table_of(rate.title, ("Criterion", "Model"), ("Outputs", "Rate"), _numbers(rate, ranked))
    return Figure(rate.id, rate.title, _reading(rate, ranked, len(criteria)), svg, numbers)


def _numbers(rate: _Rate, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [(row["criterion_id"], model_name(row), f"{row['n']:,}", rate_words(row[rate.column])) for row in rows]


def _mark(source: ReportSource, rate: _Rate, row: Row) -> Row:
    name, model = shortened(row["criterion_id"]), source.group_of(row).label
    tip = f"{name}, {model}: {rate_words(row[rate.column])} of {counted(row['n'], 'output')}"
    return {"criterion": name, "model": model, "rate": row[rate.column], "tip": tip}


def _reading(rate: _Rate, ranked: Sequence[Row], criterion_count: int) -> str:
    worst = ranked[0]
    words = rate.reading.format(
        rate=rate_words(worst[rate.column]), criterion=worst["criterion_id"], model=model_name(worst)
    )
    votes = worst["effective_votes"] if rate.column == "agreement_rate" else None
    worth = f"; the judges count as {votes_words(votes)} independent ones there" if votes is not None else ""
    more = f" The table has {criterion_count - MOST_CRITERIA:,} more." if criterion_count > MOST_CRITERIA else ""
    return f"{words}{worth}.{more}"
