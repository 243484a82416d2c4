"""Section "Scores": by model, and the weights behind them."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import (
    counted,
    rate_words,
    score_words,
)
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.run_tables import mean_interval_words, score_table
from gradebook.tasks.reporting.charts import Figure, cases_link, draw, labels_of
from gradebook.tasks.reporting.report_source import Group, MeasuredCriterion, ReportSource
from gradebook.tasks.reporting.sections.agreement import report_verdict

MOST_BARS = 24
MOST_NAMED = 4
NOWHERE = "without a category"


def weights_of(criteria: Sequence[MeasuredCriterion]) -> Figure | None:
    """Draw one bar per criterion of the rubric, its share of the total weight; None if no criterion has a weight."""
    of_rubric = [criterion for criterion in criteria if not criterion.is_own]
    weighted = [criterion for criterion in of_rubric if criterion.weight]
    if not weighted:
        return None
    largest = sorted(of_rubric, key=lambda criterion: (not criterion.is_gate, -abs(criterion.weight or 0.0)))[
        :MOST_BARS
    ]
    drawn = [criterion for criterion in of_rubric if criterion in largest]
    labels = labels_of(criterion.criterion_id for criterion in drawn)
    headings = _headings(of_rubric)
    svg = draw(
        "weights",
        {"rows": [_bar(criterion, labels[criterion.criterion_id], headings) for criterion in drawn]},
        names=list(labels.values()),
        categories=list(dict.fromkeys(headings[criterion.heading] for criterion in drawn)),
    )
    title = "Weight of each criterion"
    table = table_of(
        title,
        ("Criterion", "Category"),
        ("Share of the total",),
        ((criterion.criterion_id, criterion.heading or "–", _weight_words(criterion)) for criterion in of_rubric),
    )
    return Figure("weights", title, _weights_sentence(weighted, of_rubric, len(drawn)), svg, table)


def _headings(criteria: Sequence[MeasuredCriterion]) -> dict[str, str]:
    """Heading above the bars of each category: its name and the sum of its weights."""
    labels = labels_of(criterion.heading for criterion in criteria)
    if len(labels) == 1:
        return dict.fromkeys(labels, "")
    sums = {
        heading: sum(criterion.weight or 0.0 for criterion in criteria if criterion.heading == heading)
        for heading in labels
    }
    return {
        heading: f"{label or NOWHERE}: {rate_words(sums[heading])}" if sums[heading] else label or NOWHERE
        for heading, label in labels.items()
    }


def _bar(criterion: MeasuredCriterion, label: str, headings: dict[str, str]) -> Row:
    text = _weight_words(criterion)
    return {
        "name": label,
        "category": headings[criterion.heading],
        "weight": criterion.weight or 0.0,
        "end": max(criterion.weight or 0.0, 0.0),
        "kind": "penalty" if criterion.is_penalty else "weight",
        "words": text,
        "tip": f"{label}: {text}",
    }


def _weight_words(criterion: MeasuredCriterion) -> str:
    return "gate" if criterion.is_gate else rate_words(criterion.weight)


def _weights_sentence(
    weighted: Sequence[MeasuredCriterion], criteria: Sequence[MeasuredCriterion], drawn_count: int
) -> str:
    """Sentences with the largest weights, the gates and the penalties."""
    most = max(abs(criterion.weight or 0.0) for criterion in weighted)
    heaviest = [criterion.criterion_id for criterion in weighted if abs(criterion.weight or 0.0) >= most - 1e-9]
    whole = " of the rubric's own weights" if any(criterion.is_own for criterion in criteria) else ""
    verb = "has" if len(heaviest) == 1 else "have"
    sentence = f"{_listed(heaviest, 'and')} {verb} the largest weight: {rate_words(most)}{whole}"
    sentence = f"{sentence}{' each' if len(heaviest) > 1 else ''}."
    if len(heaviest) == len(weighted) > 1:
        sentence = f"All {len(weighted)} weighted criteria have the same weight: {rate_words(most)} each."
    gates = [criterion.criterion_id for criterion in criteria if criterion.is_gate]
    if gates:
        sentence += f" {counted(len(gates), 'gate')} without a weight: an output fails if it fails {_listed(gates)}."
    penalties = [criterion.criterion_id for criterion in criteria if criterion.is_penalty]
    if penalties:
        sentence += f" An output that meets {_listed(penalties)} loses points."
    if drawn_count < len(criteria):
        sentence += f" The table has {len(criteria) - drawn_count:,} more, with smaller weights."
    return sentence


def _listed(names: Sequence[str], joint: str = "or") -> str:
    more = len(names) - MOST_NAMED
    return f" {joint} ".join(names[:MOST_NAMED]) + (f" {joint} {more:,} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class ScoreContents:
    """Contents of the section. means: chart, None if no model has a mean; feedback: pairs of model and text."""

    table: Table
    means: Figure | None
    feedback: tuple[tuple[str, str], ...]


def read_scores(source: ReportSource) -> ScoreContents:
    """Read the rows of run_scores, highest mean first, and the written feedback."""
    table = score_table(report_verdict(source))
    feedback = tuple((source.group_of(row).name, row["feedback"]) for row in source.summary.feedback)
    return ScoreContents(table, _means(source, table), feedback)


def _means(source: ReportSource, table: Table) -> Figure | None:
    """Draw each model's mean with its interval; None if no model has a mean."""
    groups = source.drawn_groups
    scored = [(group, row) for row in source.summary.scores if (group := source.group_of(row)) in groups]
    drawn = [_dot(group, row) for group, row in scored if row["mean"] is not None]
    if not drawn:
        return None
    svg = draw(
        "means",
        {"rows": drawn},
        models=[group.label for group in groups],
        colours=[group.colour for group in groups],
        height=26 * len(groups),
    )
    return Figure(
        "means", "Mean score by model, with its 95% interval", _scores_sentence(source, len(drawn)), svg, table
    )


def _dot(group: Group, row: Row) -> Row:
    tip = f"{group.label}: {score_words(row['mean'])}, 95% interval {mean_interval_words(row)}"
    if row["n"] is not None:
        tip += f", {counted(row['n'], 'output')}"
    link = cases_link(grid="criteria", model=group.name)
    ends = {"low": row["ci_low"], "high": row["ci_high"]}
    return {"model": group.label, "mean": row["mean"], **ends, "tip": tip, "href": link}


def _scores_sentence(source: ReportSource, drawn_count: int) -> str:
    """Sentences with the highest mean, its interval and the lowest mean."""
    scored = [(source.group_of(row), row) for row in source.summary.scores if row["mean"] is not None]
    group, row = scored[0]
    sentence = f"{group.name} has a mean of {score_words(row['mean'])} over {counted(row['n'], 'output')}"
    if row["ci_low"] is not None:
        sentence += f"; 95% interval {mean_interval_words(row)}"
    if len(scored) == 1:
        return f"{sentence}."
    low, other = scored[-1]
    hidden = f" The picture shows {drawn_count} of them." if drawn_count < len(scored) else ""
    return f"{sentence}. The lowest of {len(scored)} is {low.name} with {score_words(other['mean'])}.{hidden}"
