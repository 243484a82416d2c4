"""Runs evaluated and published in this process, without Prefect."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run, evaluate_run
from gradebook.tasks.stages.submit import Stages, StagesInThreads

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


class WithoutReport(Stages):
    """Executor that leaves out the report, a quarter of a small run's time, as a review does."""

    def call(self, stage: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if stage.__name__ == "conclude_run":
            (run,) = given
            given = (replace(run, request=replace(run.request, trigger="review")),)
        return super().call(stage, *given, **named)


class ThreadsWithoutReport(WithoutReport, StagesInThreads):
    """The same, in threads."""


def publish(outputs: Path, rubric: Path, *, has_report: bool = False, **request: Any) -> RunSummary:
    """Evaluate and publish a run; the lake lies beside the outputs. request: what else an `EvaluationRequest` has."""
    lake = f"sqlite:{outputs.parent}/lake/catalog.sqlite"
    with opened_run(EvaluationRequest(str(outputs), str(rubric), lake=lake, **request), NOW) as run:
        return complete_run(run, Stages() if has_report else WithoutReport())


def score_and_publish(run: Run) -> None:
    """Everything between an open run and its summary."""
    evaluate_run(run, Stages())


def evaluate_directly(request: EvaluationRequest, *, is_verbose: bool = False) -> tuple[RunSummary, Path]:
    """As `evaluate_here`, in the threads of a review instead of Prefect's: without suites and without a report."""
    with opened_run(request, datetime.now(UTC)) as run:
        return complete_run(run, ThreadsWithoutReport()), run.folder.report_file
