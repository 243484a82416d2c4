"""Questions about the steps of an output, some at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy, ranked_severities
from gradebook.rubrics.prompts.prompt import NO_STEPS, Case, case_digest
from gradebook.rubrics.prompts.step_marks import (
    STEPS_VERSION,
    TOKENS_OF_STEP,
    StepCriterion,
    read_steps,
    render_steps,
    step_labels,
    steps_key,
    steps_schema,
    windows_of_steps,
)
from gradebook.rubrics.prompts.templates import file_digest
from gradebook.tasks.judging.replies.list_question import ListQuestion

NO_OWN_STEPS = "no_steps: found no step of the agent's own, expected some"


@dataclass(frozen=True, slots=True)
class StepUnit:
    """Output whose steps are judged. reason: why nothing can be asked."""

    output_id: str
    case: Case
    windows: tuple[tuple[int, ...], ...]
    reason: str | None = None


def step_criterion(criterion: Criterion, taxonomy: Taxonomy | None) -> StepCriterion:
    """The criterion with the errors and severities that its judge may name; severities from slight to grave."""
    asked = StepCriterion(criterion, taxonomy, ())
    penalties = asked.method.penalties or (taxonomy.severities if taxonomy else {})
    return StepCriterion(criterion, taxonomy, ranked_severities(penalties))


def step_unit(asked: StepCriterion, output_id: str, case: Case) -> StepUnit:
    """Steps of an output, by question. case: with its steps read."""
    seen = case.seen("trajectory")
    windows = windows_of_steps(seen, asked.method.steps_at_once)
    reason = None if windows else NO_STEPS if case.trajectory is None else NO_OWN_STEPS
    return StepUnit(output_id, seen, windows, reason)


def step_questions(
    asked: StepCriterion, unit: StepUnit, judge_digest: str, replicate: int = 0
) -> Iterator[ListQuestion]:
    """One question for each window of an output's steps. judge_digest: of the judge that is asked."""
    if unit.reason is not None:
        return
    of_case = case_digest(unit.case)
    labels = step_labels(asked, unit.case, judge_digest, of_case)
    schema = steps_schema(asked, labels)
    for steps in unit.windows:
        yield ListQuestion(
            unit.output_id,
            asked.criterion.id,
            steps_key(judge_digest, asked, of_case, steps, replicate),
            STEPS_VERSION,
            file_digest(STEPS_VERSION),
            partial(render_steps, asked, unit.case, steps, labels),
            schema,
            asked.method.max_tokens or 256 + len(steps) * TOKENS_OF_STEP,
            partial(read_steps, asked=asked, case=unit.case, steps=steps, labels=labels),
            replicate,
        )
