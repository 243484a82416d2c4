"""Section "Criteria": mean scores by criterion and model, weights and contributions."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.sections.criteria.heatmap import HeatMap, contributions_map, means_map
from gradebook.tasks.reporting.sections.criteria.radar import radar_of
from gradebook.tasks.reporting.sections.criteria.redundancy import Redundancy, read_redundancy
from gradebook.tasks.reporting.sections.criteria.weak_spots import WeakSpots, read_weak_spots
from gradebook.tasks.reporting.sections.scores.weights import weights_of
from gradebook.tasks.reporting.source.criteria_tree import MeasuredCriterion, measured_criteria
from gradebook.tasks.reporting.source.report_source import Group, ReportSource
from gradebook.tasks.system.number_format import interval_words, rate_words, score_words

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
    reading: str
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
    drawn = (None if isinstance(radar, str) else radar, weights_of(criteria))
    return CriteriaContents(
        means_map(criteria, groups),
        contributions,
        None if contributions else _no_sum(criteria),
        criteria_reading(criteria, groups),
        tuple(_undrawn(source, criteria)),
        tuple(figure for figure in drawn if figure is not None),
        radar if isinstance(radar, str) else None,
        read_weak_spots(source),
        read_redundancy(source),
        _table(criteria, source.groups),
    )


def criteria_reading(criteria: Sequence[MeasuredCriterion], groups: Sequence[Group]) -> str:
    """Sentences with the strongest and the weakest criterion, and the criterion on which models differ most."""
    found = [(merits, each) for each in criteria if (merits := _merits(each, groups))]
    if not found:
        return "No criterion has a score."
    averages = [(sum(merits.values()) / len(merits), each) for merits, each in found]
    (low, weakest), (high, strongest) = (choose(averages, key=lambda entry: entry[0]) for choose in (min, max))
    over = f", over {len(groups)} models" if len(groups) > 1 else ""
    if high - low < 5e-4 and len(found) == len(criteria) > 1 and not any(each.is_penalty for each in criteria):
        sentence = f"Each criterion has a mean of {score_words(high)}{over}."
    elif len(found) == 1:
        sentence = f"The only criterion with a score is {_with_mean(strongest, high)}{over}."
    else:
        sentence = f"The best mean is {_with_mean(strongest, high)}, the worst {_with_mean(weakest, low)}{over}."
    spans = [(max(merits.values()) - min(merits.values()), merits, each) for merits, each in found]
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
    return "No weighted criterion has a score, so none contributes to a mean."


def _undrawn(source: ReportSource, criteria: Sequence[MeasuredCriterion]) -> list[str]:
    """Sentences about models and criteria that the maps leave out."""
    words = []
    drawn_count, count = len(source.drawn_groups), len(source.groups)
    if drawn_count < count:
        words.append(f"The map shows the {drawn_count} of {count:,} models with the highest means; the table has all.")
    shown = sum(criterion.is_own for criterion in criteria)
    (found,) = source.rows(_OWN_COUNT, source.run_id)
    if shown < found["own_count"]:
        own = counted(found["own_count"], "per-case criterion", "per-case criteria")
        words.append(f"Input rows define {own}; the map shows the {shown} that most outputs have.")
    return words


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
