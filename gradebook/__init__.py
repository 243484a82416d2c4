"""gradebook: a rubric evaluation pipeline for the outputs of generative models.

    import gradebook

    run = gradebook.evaluate(frame, rubric="support_reply", judge="gpt-4o-mini")
    gradebook.score("some text", rubric="json_record").score

The names of `__all__` are stable. Each is imported when it is first used.

evaluate, Run                  outputs to a published run
open_lake, Lake, Difference    what is published already
score, check, Scorer           single outputs in this process; rewards for training
Score, CriterionScore, Feedback  what these return
load_rubric, lint, Rubric, Criterion, Level  rubrics
Registry, Review               rubrics of a lake by id, version and target; reviews of single targets
GradebookError and its kinds   errors, by what a caller has to do about them

flows     Prefect flows, the command line and this API
tasks     the stages of a run and what they need, with every side effect
rubrics   rubrics, checks, prompts and statistics, without side effects
sql       the models, views and queries of the tables
pages     templates, styles and scripts of the report
examples  outputs, replies and ratings of the demo
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from gradebook.flows.api.evaluation import evaluate
    from gradebook.flows.api.inputs import lint, load_rubric
    from gradebook.flows.api.published import Difference, Lake, Run, open_lake
    from gradebook.flows.api.registry import Registry
    from gradebook.flows.api.scoring import Scorer, check, score
    from gradebook.rubrics.model.errors import (
        BudgetReached,
        EndpointUnavailable,
        GradebookError,
        InputError,
        JudgeSettingsError,
        LakeError,
        OutputsError,
        QualityNotMet,
        QueryError,
        RubricError,
        UnfinishedError,
        Unscored,
    )
    from gradebook.rubrics.model.levels import Level
    from gradebook.rubrics.model.rubric import Criterion, Rubric
    from gradebook.tasks.rewards.outputs import CriterionScore, Score
    from gradebook.tasks.rewards.scorer import Feedback
    from gradebook.tasks.stages.review import Review

__all__ = [
    "BudgetReached",
    "Criterion",
    "CriterionScore",
    "Difference",
    "EndpointUnavailable",
    "Feedback",
    "GradebookError",
    "InputError",
    "JudgeSettingsError",
    "Lake",
    "LakeError",
    "Level",
    "OutputsError",
    "QualityNotMet",
    "QueryError",
    "Registry",
    "Review",
    "Rubric",
    "RubricError",
    "Run",
    "Score",
    "Scorer",
    "UnfinishedError",
    "Unscored",
    "check",
    "evaluate",
    "lint",
    "load_rubric",
    "open_lake",
    "score",
]

_ERRORS = "rubrics.model.errors"
_MODULES = {
    "flows.api.evaluation": ("evaluate",),
    "flows.api.inputs": ("lint", "load_rubric"),
    "flows.api.published": ("Difference", "Lake", "Run", "open_lake"),
    "flows.api.registry": ("Registry",),
    "flows.api.scoring": ("Scorer", "check", "score"),
    "rubrics.model.levels": ("Level",),
    "rubrics.model.rubric": ("Criterion", "Rubric"),
    "tasks.rewards.scorer": ("Feedback",),
    "tasks.stages.review": ("Review",),
    "tasks.rewards.outputs": ("CriterionScore", "Score"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first used."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_PLACES.get(name, _ERRORS)}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
