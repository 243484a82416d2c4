"""One evaluation inside any flow: from a request to a published run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from inspect import signature
from typing import Any, cast

from prefect import Task
from prefect.task_runners import TaskRunner

from gradebook.flows.deployment.artifacts import show_artifacts
from gradebook.flows.deployment.run_ids import refuse_endless_tries
from gradebook.flows.deployment.task_runners import opened_cluster, settle
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.open_run import is_published, opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.prefect_tasks import TASKS, tasks_of
from gradebook.tasks.stages.submit import Given, Made, Pending, Stages
from gradebook.tasks.system.lazy_imports import freeze_imports

# Each task handles one criterion of one shard: it computes without the GIL, or waits for the judge or a process.
WORKER_COUNT = 8
# Last run opened by this process: Prefect's server may be lost after the run is published.
_last_run: list[Run] = []


async def publish_evaluation(request: EvaluationRequest) -> RunSummary:
    """Evaluate and publish one run, with its artifacts; a run that is already published is read back.

    Raises `InputError` for a wrong request, `UnfinishedError` if the run can't be finished.
    """
    await refuse_endless_tries()
    with opened_run(request, datetime.now(UTC)) as run:
        _last_run[:] = [run]
        summary = complete_run(run, PrefectStages())
    await show_artifacts(summary, run.folder.report_file, run.lake, request.suite)
    return summary


def published_summary() -> RunSummary | None:
    """Summary of this process's last run if it is published, even without Prefect's server; else None."""
    return next((complete_run(run, Stages()) for run in _last_run if is_published(run)), None)


class PrefectStages(Stages):
    """Executor of stages as tasks of the flow run; checks and schemas go to the run's cluster, if it has one."""

    has_suites = True

    _cluster: TaskRunner[Any] | None = None
    _tasks: Mapping[Callable[..., Any], Task[..., Any]] = TASKS

    @contextmanager
    def opened(self, run: Run) -> Iterator[None]:
        """Open the run's cluster, if it has one, while the block runs."""
        freeze_imports()
        self._tasks = tasks_of(run.request.suite)
        with opened_cluster(run) as self._cluster:
            self.has_cluster = self._cluster is not None
            yield

    def call(self, stage: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made:
        """Run a stage as a task and wait for it."""
        return cast(Made, self._tasks[stage](*given, **named))

    def submit(self, stage: Callable[..., Any], *given: object, after: Sequence[Pending] = ()) -> Pending:
        """Start a stage as a task."""
        return self._tasks[stage].submit(*given, return_state=False, wait_for=after)

    def submit_to_cluster(self, stage: Callable[..., Any], *given: object) -> Pending:
        """Start a stage as a task of the cluster."""
        if self._cluster is None:
            return super().submit_to_cluster(stage, *given)
        return self._cluster.submit(self._tasks[stage], dict(signature(stage).bind(*given).arguments))

    def finish(self, pending: Sequence[Pending]) -> None:
        """As `Stages.finish`; raises `UnfinishedError` for a worker that failed repeatedly."""
        for each in pending:
            with suppress(Exception):  # also of a stage that lacks a lost worker's result: `settle` reports the first
                each.wait()
        for each in pending:
            settle(each)
