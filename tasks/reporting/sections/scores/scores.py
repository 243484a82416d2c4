"""Section "Scores": scores of the run's models with their intervals; the criteria follow in the next section."""

from collections.abc import Iterable
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.reporting.drawing.charts import draw
from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.system.number_format import (
    bounded_rate_words,
    interval_words,
    no_interval_words,
    price_words,
    rate_words,
    score_words,
    with_interval,
)

NUMBERS = (
    *("Mean", "95% interval", "SD", "Uniform weights", "Pass rate", "Gate failures", "Coverage", "Scored", "Outputs"),
    "Billed",
)


@dataclass(frozen=True, slots=True)
class ScoreContents:
    """Contents of the section. means: chart, None if no model has a mean; feedback: pairs of model and text."""

    table: Table
    means: Figure | None
    feedback: tuple[tuple[str, str], ...]


def read_scores(source: ReportSource) -> ScoreContents:
    """Read the rows of run_scores, highest mean first, and the written feedback."""
    table = score_table(source.summary.scores)
    feedback = tuple((source.group_of(row).name, row["feedback"]) for row in source.summary.feedback)
    return ScoreContents(table, _means(source, table), feedback)


def score_table(rows: Iterable[Row]) -> Table:
    """Table of these rows of run_scores."""
    return table_of("Scores by model", ("Model",), NUMBERS, map(_cells, rows))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        model_name(row),
        score_words(row["mean"]),
        mean_interval_words(row),
        score_words(row["sd"]),
        score_words(row["uniform_mean"]),
        _pass_words(row),
        "no gate"
        if (rate := row["gate_failure_rate"]) is None
        else bounded_rate_words(rate, row.get("gate_failure_high")),
        rate_words(row["coverage_rate"]),
        f"{row['n']:,}",
        f"{row['output_count']:,}",
        price_words(row["cost_usd"]),
    )


def mean_interval_words(row: Row) -> str:
    """95% interval of the mean of a row of a mart, or why there is none."""
    if row["ci_low"] is None:
        return no_interval_words(row.get("cluster_count"))
    return interval_words(row["ci_low"], row["ci_high"])


def _pass_words(row: Row) -> str:
    """Pass rate with its 95% interval."""
    return with_interval(row["pass_rate"], row.get("pass_low"), row.get("pass_high"), rate_words)


def _means(source: ReportSource, table: Table) -> Figure | None:
    """Draw each model's mean with its interval; None if no model has a mean."""
    groups = source.drawn_groups
    found = [(group, row) for row in source.summary.scores if (group := source.group_of(row)) in groups]
    drawn = [_dot(group, row) for group, row in found if row["mean"] is not None]
    if not drawn:
        return None
    svg = draw(
        "means",
        {"rows": drawn},
        models=[group.label for group in groups],
        colours=[group.colour for group in groups],
        height=26 * len(groups),
    )
    return Figure("means", "Mean score by model, with its 95% interval", _reading(source, len(drawn)), svg, table)


def _dot(group: Group, row: Row) -> Row:
    tip = f"{group.label}: {score_words(row['mean'])}, 95% interval {mean_interval_words(row)}"
    return {"model": group.label, "mean": row["mean"], "low": row["ci_low"], "high": row["ci_high"], "tip": tip}


def _reading(source: ReportSource, drawn_count: int) -> str:
    """Sentences with the highest mean, its interval and the lowest mean."""
    found = [(source.group_of(row), row) for row in source.summary.scores if row["mean"] is not None]
    group, row = found[0]
    words = f"{group.name} has a mean of {score_words(row['mean'])} over {counted(row['n'], 'output')}"
    if row["ci_low"] is not None:
        words += f"; 95% interval {mean_interval_words(row)}"
    if len(found) == 1:
        return f"{words}."
    low, other = found[-1]
    hidden = f" The picture shows {drawn_count} of them." if drawn_count < len(found) else ""
    return f"{words}. The lowest of {len(found)} is {low.name} with {score_words(other['mean'])}.{hidden}"
