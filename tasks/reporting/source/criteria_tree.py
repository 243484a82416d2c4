"""Criteria of a run in reading order, with the measured rows of every model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.rubric import NO_CATEGORY
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.source.report_source import Group, ReportSource

Path = tuple[str, ...]  # categories, outermost first
GroupKey = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class MeasuredCriterion:
    """Criterion with its rows of criterion_scores by model and checkpoint. path: its categories, outermost first.

    weight: share of the rubric's positive weights, negative for a penalty; None for a gate and a per-case criterion.
    """

    criterion_id: str
    path: Path
    is_own: bool
    is_gate: bool
    weight: float | None
    rows: Mapping[GroupKey, Row]

    @property
    def description(self) -> str | None:
        """Its question in full; of a per-case criterion that of one case."""
        return next((row.get("description") for row in self.rows.values()), None)

    @property
    def heading(self) -> str:
        """Categories as text; empty if it has none."""
        return " / ".join(self.path)

    @property
    def is_penalty(self) -> bool:
        """Whether a high score is bad."""
        return self.weight is not None and self.weight < 0

    def row_of(self, group: Group) -> Row | None:
        """Row of a model; None if the criterion applies to none of its outputs."""
        return self.rows.get((group.model, group.checkpoint))

    def mean_of(self, group: Group) -> float | None:
        """Mean score of a model."""
        row = self.row_of(group)
        return None if row is None else row["mean"]

    def merit_of(self, group: Group) -> float | None:
        """Mean with higher values better: 1 - mean for a penalty."""
        mean = self.mean_of(group)
        return 1.0 - mean if self.is_penalty and mean is not None else mean


def measured_criteria(source: ReportSource) -> tuple[MeasuredCriterion, ...]:
    """The rubric's criteria, in its order within categories, then per-case criteria by id."""
    rows: dict[str, dict[GroupKey, Row]] = {}
    for row in source.summary.criteria:
        rows.setdefault(row["criterion_id"], {})[row["model"], row["checkpoint"]] = row
    of_rubric = [
        MeasuredCriterion(
            row["criterion_id"],
            _path(row["category"], source.category_parents),
            False,
            bool(row["is_gate"]),
            next(iter(rows[row["criterion_id"]].values()))["weight"],
            rows.pop(row["criterion_id"]),
        )
        for row in source.criteria
        if row["criterion_id"] in rows
    ]
    own = (MeasuredCriterion(name, (), True, False, None, found) for name, found in sorted(rows.items()))
    return (*_within_categories(of_rubric), *own)


def _path(category: str | None, parents: Mapping[str, str | None]) -> Path:
    path: list[str] = []
    while category is not None and category != NO_CATEGORY and category not in path:
        path.insert(0, category)
        category = parents.get(category)
    return tuple(path)


def _within_categories(criteria: Sequence[MeasuredCriterion]) -> list[MeasuredCriterion]:
    """Stable sort that groups criteria by category path, at the position of each group's first criterion."""
    firsts: dict[Path, int] = {}
    for place, criterion in enumerate(criteria):
        for depth in range(1, len(criterion.path) + 1):
            firsts.setdefault(criterion.path[:depth], place)
    keys = {
        criterion.criterion_id: (*(firsts[criterion.path[: depth + 1]] for depth in range(len(criterion.path))), place)
        for place, criterion in enumerate(criteria)
    }
    return sorted(criteria, key=lambda criterion: keys[criterion.criterion_id])
