"""Engine of a Prefect flow run: stages as tasks, artifacts, events, run ids of deployments."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from inspect import signature
from pathlib import Path
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect import Task, get_client, get_run_logger, runtime
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.events import emit_event
from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.task_runners import TaskRunner

from gradebook.flows.deployment.in_process import asked_here
from gradebook.flows.deployment.names import artifact_key, evaluation_name
from gradebook.flows.deployment.run_ids import deployed_run_id, flow_date, refuse_endless_tries
from gradebook.flows.deployment.task_runners import opened_cluster, settle
from gradebook.tasks.lake.rows import model_name
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.export.comment import artifact_texts
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.prefect_tasks import TASKS, tasks_of
from gradebook.tasks.stages.submit import Event, Given, Made, Pending, Stages

# Each task handles one criterion of one shard: it computes without the GIL, or waits for the judge or a process.
WORKER_COUNT = 8
SITE_URL = "GRADEBOOK_SITE_URL"  # where the folder of `gradebook site` is served: links to reports then open anywhere
MOST_NAMED = 2  # models in the name of a flow run
# Of an artifact: the run is published already, so a server that does not answer is not waited for.
PATIENCE = {PREFECT_API_REQUEST_TIMEOUT: 10.0, PREFECT_CLIENT_MAX_RETRIES: 0}


class PrefectStages(Stages):
    """Executor of stages as tasks of the flow run; checks and schemas go to the run's cluster, if it has one.

    Artifacts, events and names are shown to people: where the server does not take them, the flow run's log says so.
    """

    has_suites = True

    _cluster: TaskRunner[Any] | None = None
    _tasks: Mapping[Callable[..., Any], Task[..., Any]] = TASKS

    @contextmanager
    def opened(self, run: Run) -> Iterator[None]:
        """Open the run's cluster, if it has one, while the block runs."""
        if here := asked_here():
            here.run = run
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

    def run_id(self, name: str) -> str | None:
        """Id of the run that this flow run publishes under a name; None if no deployment started the flow run."""
        return deployed_run_id(name)

    def today(self) -> date:
        """Local date of this flow run's scheduled start."""
        return flow_date()

    def refuse_endless_tries(self) -> None:
        """Raise `UnfinishedError` in a flow run whose process died again and again."""
        refuse_endless_tries()

    def show_run(self, run: Run, summary: RunSummary) -> None:
        """Store the run's scores, comparison, costs and report link as artifacts, under keys of the suite or rubric."""
        subject = run.request.suite or summary.run["rubric_id"]
        with _logged(f"run {summary.run_id} is published; its artifacts could not be stored"):
            for kind, description, text in artifact_texts(summary, run.lake.words(is_passed_on=True)):
                create_markdown_artifact(text, key=artifact_key(subject, kind), description=description)
            url, text = report_url(summary.run_id, run.folder.report_file), f"Report of run {summary.run_id}"
            create_link_artifact(url, key=artifact_key(subject, "report"), link_text=text)

    def show_text(self, subject: str, kind: str, text: str, description: str) -> None:
        """Store a Markdown text as an artifact, under a key of its subject and kind."""
        with _logged(f"{description}; the artifact could not be stored"):
            create_markdown_artifact(text, key=artifact_key(subject, kind), description=description)

    def emit(self, event: Event) -> None:
        """Emit an event, whose id depends on its key alone."""
        related = [{"prefect.resource.role": role, "prefect.resource.id": name} for role, name in event.related.items()]
        with _logged(f"no event {event.name} was emitted"):
            emit_event(
                event.name,
                resource=dict(event.resource),
                related=related,
                payload=dict(event.payload),
                id=uuid5(NAMESPACE_URL, event.key),
            )

    def name_models(self, summary: RunSummary) -> None:
        """Add the models of a run to the name of this flow run."""
        models = [model_name(row) for row in summary.scores]
        others = f" and {len(models) - MOST_NAMED} more" if len(models) > MOST_NAMED else ""
        name = f"{evaluation_name()}: {', '.join(models[:MOST_NAMED])}{others}"
        with _logged(f"the flow run could not be named {name!r}"), get_client(sync_client=True) as client:
            client.update_flow_run(UUID(runtime.flow_run.id), name=name)


def report_url(run_id: str, report: Path) -> str:
    """Address of a run's report: on the site if the environment names one, else the file on this machine."""
    site = os.environ.get(SITE_URL, "").rstrip("/")
    return f"{site}/runs/{run_id}.html" if site else report.as_uri()


@contextmanager
def _logged(sentence: str) -> Iterator[None]:
    """Log what fails in the block, which the lake does not need; a slow server is not waited for."""
    try:
        with temporary_settings(PATIENCE):
            yield
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("%s: %r", sentence, error)
