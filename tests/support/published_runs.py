"""Runs evaluated and published in this process, without Prefect."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.open_run import is_published, opened_run, recorded
from gradebook.tasks.stages.pipeline import evaluate_run
from gradebook.tasks.stages.publish import conclude_run
from gradebook.tasks.stages.submit import Stages, StagesInThreads

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


def publish(outputs: Path, rubric: Path, *, has_report: bool = False, **request: Any) -> RunSummary:
    """Evaluate and publish a run; the lake lies beside the outputs. request: what else an `EvaluationRequest` has."""
    lake = f"sqlite:{outputs.parent}/lake/catalog.sqlite"
    with opened_run(EvaluationRequest(str(outputs), str(rubric), lake=lake, **request), NOW) as run:
        return _completed(run, Stages(), has_report=has_report)


def score_and_publish(run: Run) -> None:
    """Everything between an open run and its summary."""
    evaluate_run(run, Stages())


def evaluate_directly(request: EvaluationRequest, *, is_verbose: bool = False) -> tuple[RunSummary, Path]:
    """As `evaluate_here`, in the threads of a review instead of Prefect's: without suites and without a report."""
    with opened_run(request, datetime.now(UTC)) as run:
        return _completed(run, StagesInThreads(), has_report=False), run.folder.report_file


def _completed(run: Run, stages: Stages, *, has_report: bool) -> RunSummary:
    """As `complete_run`; the report, a quarter of a small run's time, is left out as it is for a review."""
    if not is_published(run):
        with recorded(run), stages.opened(run):
            evaluate_run(run, stages)
    return conclude_run(run if has_report else replace(run, request=replace(run.request, trigger="review")))
