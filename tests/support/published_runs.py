"""Runs evaluated and published in this process, without Prefect."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run, evaluate_run
from gradebook.tasks.stages.submit import Stages

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


def publish(outputs: Path, rubric: Path, *, has_report: bool = False, **request: Any) -> RunSummary:
    """Evaluate and publish a run; the lake lies beside the outputs. request: what else an `EvaluationRequest` has."""
    lake = f"sqlite:{outputs.parent}/lake/catalog.sqlite"
    asked = EvaluationRequest(str(outputs), str(rubric), lake=lake, has_page=has_report, **request)
    with opened_run(asked, NOW) as run:
        return complete_run(run, Stages())


def score_and_publish(run: Run) -> None:
    """Everything between an open run and its summary."""
    evaluate_run(run, Stages())
