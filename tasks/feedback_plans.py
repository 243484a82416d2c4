"""The texts of `--feedback llm` in a run's plan: asked for after the judging, and paid from the same budget."""

from dataclasses import replace

from gradebook.rubrics.model import Rubric
from gradebook.tasks.feedback import plan_feedback
from gradebook.tasks.ingest import Ingested
from gradebook.tasks.judging.panels import Judge, writer_of
from gradebook.tasks.plan import RunPlan


def add_feedback(
    planned: RunPlan, feedback: str | None, judge: Judge | None, rubric: Rubric, ingested: Ingested
) -> RunPlan:
    """The plan with a last line for the texts, where a request's `feedback` asks a judge for them."""
    if not feedback:
        return planned
    texts = plan_feedback(writer_of(judge) if judge else None, rubric, ingested)
    return replace(planned, criteria=(*planned.criteria, texts))
