"""Heat map of criteria by model: a table with darker cells for higher numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from gradebook.tasks.published.verdict import question_words
from gradebook.tasks.reporting.source.criteria_tree import MeasuredCriterion
from gradebook.tasks.reporting.source.report_source import Group
from gradebook.tasks.system.number_format import rate_words, score_words, signed_words

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
    found = {(each.criterion_id, group): _contribution(each, group) for each in weighted for group in groups}
    known = [abs(value) for value in found.values() if value is not None]
    if not known:
        return None
    widest = max(known) or 1.0
    sums = [_sum([found[each.criterion_id, group] for each in weighted]) for group in groups]
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
            lambda criterion: tuple(_part_cell(found[criterion.criterion_id, group], widest) for group in groups),
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
        HeatGroup(heading if has_headings else None, tuple(_heat_row(each, cells_of(each)) for each in found))
        for heading, found in groupby(criteria, key=_heading)
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
    note = f"{rate_words(coverage)} scored" if coverage < 1 else None
    link = examples_link(criterion.criterion_id, group)
    return HeatCell(score_words(row["mean"]), _shade(row["mean"]), criterion.is_penalty, note, link)


def _part_cell(contribution: float | None, widest: float) -> HeatCell:
    if contribution is None:
        return HeatCell("–", None, is_loss=False)
    is_loss = contribution < 0
    words = signed_words(contribution) if is_loss else score_words(contribution)
    return HeatCell(words, _shade(abs(contribution) / widest), is_loss)


def _contribution(criterion: MeasuredCriterion, group: Group) -> float | None:
    row = criterion.row_of(group)
    return None if row is None else row["contribution"]


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _shade(value: float) -> str:
    return f"{min(max(value, 0.0), 1.0):.2f}"
