"""Dry run: requests and cost of an evaluation, without leaving files."""

from datetime import UTC, datetime

from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import previewed_run
from gradebook.tasks.stages.pipeline import plan_evaluation
from gradebook.tasks.stages.submit import Stages


def preview_run(request: EvaluationRequest) -> tuple[Ingested, RunPlan]:
    """Ingest into a temporary folder and plan. Raises `InputError` as the evaluation would before its first request."""
    with previewed_run(request, datetime.now(UTC)) as run:
        return plan_evaluation(run, Stages(), is_preview=True)
