"""Engine of a Prefect flow run: stages as tasks, artifacts, events, run ids of deployments; and Prefect's task runner
for a cluster, if the run's setting names one. Else the flow's own threads run the tasks.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from inspect import signature
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect import Task, get_client, get_run_logger, runtime
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.events import emit_event
from prefect.exceptions import CrashedRun
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.task_runners import TaskRunner

from gradebook.flows.deployment.in_process import command_request
from gradebook.flows.deployment.names import artifact_key, deployed_run_id, flow_date, refuse_endless_tries
from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.methods.table import is_computed
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.comment import artifact_texts
from gradebook.tasks.runs.run import Run
from gradebook.tasks.runs.runner import Runner, read_runner, split_address
from gradebook.tasks.stages.prefect_tasks import TASKS, tasks_of
from gradebook.tasks.stages.submit import Event, Given, Made, Pending, Stages
from gradebook.tasks.system.processes import core_count
from gradebook.tasks.workspace.folder import report_url

# A task handles one criterion of one shard. It computes without the GIL, or waits for the judge or a process.
WORKER_COUNT = 8
# Timeout of an artifact: the run is published already, so it does not wait for a server that does not answer.
PATIENCE = {PREFECT_API_REQUEST_TIMEOUT: 10.0, PREFECT_CLIENT_MAX_RETRIES: 0}


class PrefectStages(Stages):
    """Executor of stages as tasks of the flow run; checks and schemas go to the run's cluster, if it has one.

    Artifacts, events and names are for people: if the server refuses them, the flow run only logs that.
    """

    has_suites = True

    _cluster: TaskRunner[Any] | None = None
    _tasks: Mapping[Callable[..., Any], Task[..., Any]] = TASKS

    @contextmanager
    def opened(self, run: Run) -> Iterator[None]:
        """Open the run's cluster, if it has one, while the block runs."""
        if here := command_request():
            here.run = run
        self._tasks = tasks_of(run.request.suite)
        with opened_cluster(run) as self._cluster:
            self.has_cluster = self._cluster is not None
            yield

    def call(self, stage: Callable[Given, Made], *arguments: Given.args, **keywords: Given.kwargs) -> Made:
        """Run a stage as a task and wait for it."""
        return cast(Made, self._tasks[stage](*arguments, **keywords))

    def submit(self, stage: Callable[..., Any], *arguments: object, after: Sequence[Pending] = ()) -> Pending:
        """Start a stage as a task."""
        return self._tasks[stage].submit(*arguments, return_state=False, wait_for=after)

    def submit_to_cluster(self, stage: Callable[..., Any], *arguments: object) -> Pending:
        """Start a stage as a task of the cluster."""
        if self._cluster is None:
            return super().submit_to_cluster(stage, *arguments)
        return self._cluster.submit(self._tasks[stage], dict(signature(stage).bind(*arguments).arguments))

    def finish(self, pending: Sequence[Pending]) -> None:
        """Wait for all stages and raise the first error; `UnfinishedError` for a worker that failed repeatedly."""
        for future in pending:
            with suppress(Exception):  # a stage may lack a lost worker's result; `settle` reports the first error
                future.wait()
        for future in pending:
            settle(future)

    def run_id(self, name: str) -> str | None:
        """Id of the run that this flow run publishes under a name; None if no deployment started the flow run."""
        return deployed_run_id(name)

    def today(self) -> date:
        """Local date of this flow run's scheduled start."""
        return flow_date()

    def refuse_endless_tries(self) -> None:
        """Raise `UnfinishedError` in a flow run whose process has died too many times."""
        refuse_endless_tries()

    def show_run(self, run: Run, summary: RunSummary) -> None:
        """Store the run's scores, comparison, costs and report link as artifacts, under keys of the suite or rubric."""
        subject = run.request.suite or summary.run["rubric_id"]
        with _logged(f"run {summary.run_id} is published; its artifacts could not be stored"):
            for kind, description, text in artifact_texts(summary, run.lake.words(is_passed_on=True)):
                create_markdown_artifact(text, key=artifact_key(subject, kind), description=description)
            url, text = report_url(run.folder), f"Report of run {summary.run_id}"
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

    def name_outcome(self, name: str) -> None:
        """Name this flow run after its outcome, as the server's list shows every completed state in green."""
        with _logged(f"the flow run could not be named {name!r}"), get_client(sync_client=True) as client:
            client.update_flow_run(UUID(runtime.flow_run.id), name=name)


@contextmanager
def _logged(sentence: str) -> Iterator[None]:
    """Log a failure of the block instead of raising it: the lake does not need its outcome. Limits the waiting time."""
    try:
        with temporary_settings(PATIENCE):
            yield
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("%s: %r", sentence, error)


CONNECT_TIMEOUT_S = 30
# How long a run waits for a cluster that has lost all its workers, unless Dask's own setting says otherwise.
NO_WORKERS_S = 300.0
NO_WORKERS = "distributed.scheduler.no-workers-timeout"
LOOK_S = 1.0


@contextmanager
def opened_cluster(run: Run) -> Iterator[TaskRunner[Any] | None]:
    """Open the task runner for the run's checks and schemas while the block runs; None if the flow computes them.

    Raises `UnfinishedError` if the cluster does not answer.
    """
    runner = read_runner(run.request.runner)
    if not runner.is_cluster or not any(map(is_computed, run.rubric.criteria)):
        yield None
        return
    task_runner_context = _dask(runner) if runner.kind == "dask" else _ray(runner)
    with task_runner_context as cluster:
        yield cluster


def settle(future: PrefectFuture[Any]) -> None:
    """Raise the error of a future's task, or `UnfinishedError` if its worker failed repeatedly."""
    try:
        future.result()
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if library not in {"distributed", "ray"} and not isinstance(error, CrashedRun):
            raise
        raise UnfinishedError(
            f"the cluster gave up on a shard ({type(error).__name__}: {error}); expected workers that stay alive, each "
            "with memory for a shard; run the same command again to resume"
        ) from error


@contextmanager
def _dask(runner: Runner) -> Iterator[TaskRunner[Any]]:
    from prefect_dask.task_runners import DaskTaskRunner

    for name in ("distributed", "py.warnings"):  # dask logs warnings too
        logging.getLogger(name).setLevel(_log_level())
    # One process for each core, with one thread each: checks hold the GIL.
    local = {"n_workers": core_count(), "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    cluster = None if runner.address else local | {"silence_logs": _log_level()}
    task_runner = DaskTaskRunner(
        address=runner.address, cluster_kwargs=cluster, client_kwargs={"timeout": CONNECT_TIMEOUT_S}
    )
    with task_runner:
        try:
            task_runner.client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
        except TimeoutError as error:
            raise _no_answer(runner, TimeoutError(f"no worker within {CONNECT_TIMEOUT_S} s")) from error
        except OSError as error:
            raise _no_answer(runner, error) from error
        with _watched(task_runner.client):
            yield task_runner


@contextmanager
def _watched(client: Any) -> Iterator[None]:
    """Cancel the tasks of a Dask cluster that has no workers or does not answer, as Dask itself waits forever."""
    import dask

    patience = dask.utils.parse_timedelta(dask.config.get(NO_WORKERS, None) or NO_WORKERS_S)
    is_over = threading.Event()
    thread = threading.Thread(target=_watch, args=[client, patience, is_over], name="watch dask", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _watch(client: Any, patience_s: float, is_over: threading.Event) -> None:
    from distributed import Future

    seen_at = time.monotonic()
    while not is_over.wait(LOOK_S):
        if _has_workers(client):
            seen_at = time.monotonic()
        elif time.monotonic() - seen_at > patience_s:
            futures: list[Any] = [Future(key, client) for key in list(client.futures)]
            client.cancel(futures, reason="no-workers", msg=f"found no worker for {patience_s:g} s")


def _has_workers(client: Any) -> bool:
    try:
        return bool(client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=CONNECT_TIMEOUT_S)["workers"])
    except (OSError, TimeoutError, AttributeError, RuntimeError):  # the scheduler is gone or does not answer
        return False


@contextmanager
def _ray(runner: Runner) -> Iterator[TaskRunner[Any]]:
    _refuse_closed_port(runner)
    from prefect_ray.task_runners import RayTaskRunner  # type: ignore[import-not-found]

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage data leaves the machine
    quiet = {"logging_level": _log_level(), "log_to_driver": _log_level() < logging.CRITICAL}
    # Prefect passes no address to Ray in these two cases; Ray would then use a running cluster, or start one.
    local = {"address": "local", "num_cpus": core_count(), "include_dashboard": False}
    location = local if runner.address is None else {"address": "auto"} if runner.address == "auto" else {}
    task_runner = RayTaskRunner(address=runner.address, init_kwargs=quiet | location)
    try:
        task_runner.__enter__()
    except Exception as error:  # ray raises a plain Exception if its processes are slow to start
        raise _no_answer(runner, error) from error
    try:
        yield task_runner
    finally:
        task_runner.__exit__(None, None, None)


def _refuse_closed_port(runner: Runner) -> None:
    """Raise `UnfinishedError` if no process listens at the address: Ray itself would try for minutes."""
    try:
        url = split_address(runner.address or "")
        if url.hostname and url.port:
            socket.create_connection((url.hostname, url.port), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:  # a port that is not a number raises ValueError
        raise _no_answer(runner, error) from error


def _log_level() -> int:
    """Prefect's log level; CRITICAL in a command that shows progress bars instead."""
    level: int = logging.getLevelNamesMapping().get(os.environ.get("PREFECT_LOGGING_LEVEL", "INFO"), logging.INFO)
    return level


def _no_answer(runner: Runner, error: Exception) -> UnfinishedError:
    cause = str(error) or type(error).__name__
    return UnfinishedError(f"{runner.name}: found {cause}, expected a cluster that answers, with workers")
