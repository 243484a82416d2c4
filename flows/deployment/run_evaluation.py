"""One evaluation inside a flow, whichever flow that is: from what is asked for to a published run."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from inspect import signature
from typing import Any, cast

from prefect.futures import wait
from prefect.task_runners import TaskRunner

from gradebook.flows.deployment.artifacts import show_artifacts
from gradebook.flows.deployment.run_ids import refuse_endless_tries
from gradebook.flows.deployment.task_runners import opened_cluster, settle
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.prefect_tasks import TASKS
from gradebook.tasks.stages.submit import Given, Made, Pending, Stages

# A task is a criterion and a shard: it computes outside Python's lock, or waits for the judge or another process.
WORKER_COUNT = 8


async def publish_evaluation(request: EvaluationRequest) -> RunSummary:
    """Evaluate and publish one run, with its artifacts; one that is published already is read back.

    Raises `InputError` where the request is wrong, `UnfinishedError` where the run can't go on.
    """
    await refuse_endless_tries()
    with opened_run(request, datetime.now(UTC)) as run:
        summary = complete_run(run, PrefectStages())
    await show_artifacts(summary, run.folder.report_file)
    return summary


class PrefectStages(Stages):
    """Carries stages out as tasks of the flow run, and what code decides by a cluster where the run has one."""

    has_suites = True

    _cluster: TaskRunner[Any] | None = None

    @contextmanager
    def opened(self, run: Run) -> Iterator[None]:
        """The cluster of a run, where it has one."""
        _set_imports_aside()
        with opened_cluster(run) as self._cluster:
            self.has_cluster = self._cluster is not None
            yield

    def call(self, stage: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made:
        """Carry a stage out as a task and wait for it."""
        return cast(Made, TASKS[stage](*given, **named))

    def submit(self, stage: Callable[..., Any], *given: object, after: Sequence[Pending] = ()) -> Pending:
        """Begin a stage as a task."""
        return TASKS[stage].submit(*given, return_state=False, wait_for=after)

    def submit_to_cluster(self, stage: Callable[..., Any], *given: object) -> Pending:
        """Begin a stage as a task of the cluster."""
        if self._cluster is None:
            return super().submit_to_cluster(stage, *given)
        return self._cluster.submit(TASKS[stage], dict(signature(stage).bind(*given).arguments))

    def finish(self, pending: Sequence[Pending]) -> None:
        """As `Stages.finish`; a worker that failed time and again is an `UnfinishedError`."""
        wait(list(pending))
        for each in pending:
            settle(each)


@cache
def _set_imports_aside() -> None:
    """Keep the collector from the million objects that imports leave; once, for later ones are of evaluations."""
    gc.freeze()
