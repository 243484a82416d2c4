"""Criteria from bare requirements: a question for a judge, and the levels not met and met."""

from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Criterion

MET_LEVELS: tuple[Row, ...] = (
    {
        "id": "not_met",
        "score": 0.0,
        "description": "The output does not do what the requirement says, or only in part.",
    },
    {"id": "met", "score": 1.0, "description": "The output does all of what the requirement says."},
)


def met_levels() -> list[Row]:
    """Levels of a requirement without any, worst first."""
    return [dict(level) for level in MET_LEVELS]


def are_met_levels(criterion: Criterion) -> bool:
    """Whether a criterion has only the levels not met and met, or none."""
    levels = criterion.scale.levels if criterion.scale else criterion.levels
    return not levels or [level.model_dump(exclude_defaults=True) for level in levels] == met_levels()
