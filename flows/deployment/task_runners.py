"""Prefect's task runner for a cluster, if the run's setting names one; the flow's own threads stay in use."""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.exceptions import CrashedRun
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.runs.run import Run
from gradebook.tasks.runs.runner import Runner, read_runner, split_address
from gradebook.tasks.scoring.computed import is_computed
from gradebook.tasks.system.processes import core_count

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
    opened = _dask(runner) if runner.kind == "dask" else _ray(runner)
    with opened as cluster:
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
    opened = DaskTaskRunner(
        address=runner.address, cluster_kwargs=cluster, client_kwargs={"timeout": CONNECT_TIMEOUT_S}
    )
    with opened:
        try:
            opened.client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
        except TimeoutError as error:
            raise _no_answer(runner, TimeoutError(f"no worker within {CONNECT_TIMEOUT_S} s")) from error
        except OSError as error:
            raise _no_answer(runner, error) from error
        with _watched(opened.client):
            yield opened


@contextmanager
def _watched(client: Any) -> Iterator[None]:
    """Cancel the tasks of a Dask cluster without workers, or without an answer: Dask itself waits forever."""
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
    except (OSError, TimeoutError, AttributeError, RuntimeError):  # the scheduler is gone, or stands still
        return False


@contextmanager
def _ray(runner: Runner) -> Iterator[TaskRunner[Any]]:
    _refuse_closed_port(runner)
    from prefect_ray.task_runners import RayTaskRunner  # type: ignore[import-not-found]

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage data leaves the machine
    quiet = {"logging_level": _log_level(), "log_to_driver": _log_level() < logging.CRITICAL}
    # Prefect passes no address to Ray in these two cases; Ray would then use a running cluster, or start one.
    local = {"address": "local", "num_cpus": core_count(), "include_dashboard": False}
    place = local if runner.address is None else {"address": "auto"} if runner.address == "auto" else {}
    opened = RayTaskRunner(address=runner.address, init_kwargs=quiet | place)
    try:
        opened.__enter__()
    except Exception as error:  # ray raises a plain Exception if its processes are slow to start
        raise _no_answer(runner, error) from error
    try:
        yield opened
    finally:
        opened.__exit__(None, None, None)


def _refuse_closed_port(runner: Runner) -> None:
    """Raise `UnfinishedError` if no process listens at the address: Ray itself would try for minutes."""
    try:
        parts = split_address(runner.address or "")
        if parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:  # a port that is not a number raises ValueError
        raise _no_answer(runner, error) from error


def _log_level() -> int:
    """Prefect's log level; CRITICAL in a command that shows progress bars instead."""
    level: int = logging.getLevelNamesMapping().get(os.environ.get("PREFECT_LOGGING_LEVEL", "INFO"), logging.INFO)
    return level


def _no_answer(runner: Runner, error: Exception) -> UnfinishedError:
    found = str(error) or type(error).__name__
    return UnfinishedError(f"{runner.name}: found {found}, expected a cluster that answers, with workers")
