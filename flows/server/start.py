"""A flow run by a command in its own process, with progress bars, Ctrl-C and a sentence for a lost server."""

import asyncio
import logging
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import cast

from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.server.shared import shared_server
from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import open_for_writing, prepare_lake, refuse_unusable
from gradebook.tasks.lake.object_store import probe_store
from gradebook.tasks.operations.doctor.machine import without_secrets
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest, Use, json_values
from gradebook.tasks.stages.check_request import check_request, refuse_bad_start
from gradebook.tasks.stages.open_run import refuse_taken_id
from gradebook.tasks.stages.preview import refuse_vain_start
from gradebook.tasks.stages.suite_process import start_suite_process, use_suite_process, warm_up
from gradebook.tasks.system.folder_settings import prefect_home
from gradebook.tasks.system.lazy_imports import deferred_imports, uncollected
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import note_start

PREFECT_LOGS = (
    "PREFECT_LOGGING_LEVEL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL",
)
# Loggers with a level of their own: of the shared server, and of threads that still send events when a run ends.
PREFECT_INNER_LOGS = ("PREFECT_SERVER_LOGGING_LEVEL", "PREFECT_INTERNAL_LOGGING_LEVEL")
# Prefect imports its kinds of blocks at once, and words for names; no flow here sends notifications or lacks a name.
UNUSED = ("prefect.blocks.notifications", "prefect.blocks.webhook", "coolname")
UNREACHED = "Failed to reach API"  # Prefect's message if no server answered from the beginning


def evaluate_here(
    request: EvaluationRequest, *, is_verbose: bool = False, is_shown: bool = True
) -> tuple[RunSummary, Path]:
    """Run the flow in this process; returns the summary and the report's path. is_shown: whether progress is printed.

    Raises `InputError` within a second if the request is wrong, and `UnfinishedError` if its judge does not answer or
    its budget is too small for one reply: no server is started for it.
    """
    open_for_writing(find_lake(request.lake, request.data))
    checked = check_request(request)
    refuse_bad_start(request, checked)
    refuse_taken_id(request, checked)
    refuse_vain_start(request, checked)
    with prefect_set_up(checked.lake, has_page=request.has_page, is_verbose=is_verbose, is_shown=is_shown):
        from gradebook.flows.evaluate_outputs import evaluate_outputs

        try:
            with report_lost_server():
                # mypy sees the returned state; callers get its value
                flow_run = evaluate_outputs(**json_values(request, Use.OUTPUTS_FLOW))
                summary = cast(RunSummary, asyncio.run(flow_run))
        except LostServer:
            from gradebook.flows.deployment.run_evaluation import published_summary

            published = published_summary()
            if published is None:
                raise
            summary = published
    return summary, RunFolder.below(checked.lake.root, summary.run_id).report_file


@contextmanager
def prefect_set_up(lake: Lake, *, is_verbose: bool, has_page: bool = True, is_shown: bool = True) -> Iterator[None]:
    """Prepare the lake, Prefect's settings, its server and the imports of a flow; show progress during the block.

    has_page: whether the runs have reports.
    """
    refuse_unusable(lake)
    if lake.bucket is not None:  # a key that may not write is refused before anything starts
        probe_store(lake.bucket)
    choose_prefect_logs(is_verbose=is_verbose)
    server = shared_server()
    prepare_lake(lake)  # a new lake takes half a CPU second, beside the start of the server
    use_suite_process(prefect_home())
    if server and server.is_new:
        warm_up(has_page=has_page)  # while this thread waits for the server
    with shown_progress() if is_shown else nullcontext(), _interruptible():
        if server:
            server.announce()
        start_suite_process()  # needed later than the server: earlier, three processes would share two cores
        import_flows()  # they bring Prefect, which reads the server's address, and take as long as its start
        if server:
            server.wait()
        note_start()
        yield


def import_flows() -> None:
    """Import Prefect, and what a flow here needs of it."""
    with uncollected(), deferred_imports(*UNUSED):
        import gradebook.flows.deployment.run_evaluation  # noqa: F401


def choose_prefect_logs(*, is_verbose: bool) -> None:
    """Keep Prefect's log quiet, unless it is wanted. Call it before the first import of Prefect, which reads it."""
    for name in PREFECT_LOGS:
        os.environ.setdefault(name, "INFO" if is_verbose else "CRITICAL")  # a failure is reported once, in a sentence
    if not is_verbose:
        for name in PREFECT_INNER_LOGS:
            os.environ.setdefault(name, "CRITICAL")
        # Prefect prints Python's warnings; two threads that import at once reset each other's filters of them.
        logging.getLogger("py.warnings").setLevel(logging.CRITICAL)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the block at once.

    asyncio's own handler only cancels the flow, which notices that when all shards are scored. It replaces no handler
    but Python's default.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set a handler
        yield
        return
    earlier = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class LostServer(UnfinishedError):
    """Prefect's server is gone for good; what the lake holds decides how the command ends."""


@contextmanager
def report_lost_server() -> Iterator[None]:
    """Raise `LostServer` if Prefect's client gives up its server during the block.

    The client retries for about a minute (PREFECT_CLIENT_MAX_RETRIES); a run goes on if the server is back by then.
    """
    try:
        yield
    except Exception as error:
        fault = _server_fault(error)
        if fault is None:
            raise
        from prefect.settings import PREFECT_API_URL

        _drop_events()
        address = without_secrets(PREFECT_API_URL.value() or "")
        raise LostServer(
            f"Prefect's server at {address} {fault}; finished judgments are stored: "
            "run the same command again once it is back"
        ) from error


def _server_fault(error: Exception) -> str | None:
    """The fault of Prefect's server behind an error; None if the error has another cause."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return f"answered HTTP {error.response.status_code}"
    if isinstance(error, httpx.HTTPError):  # judges are asked by another HTTP client
        return f"does not answer ({type(error).__name__})"
    return "does not answer" if isinstance(error, RuntimeError) and UNREACHED in str(error) else None


def _drop_events() -> None:
    """Drop the events that wait to be sent: at exit each takes seven seconds to fail, hours after a large run."""
    from prefect.events.worker import EventsWorker

    workers = getattr(EventsWorker, "_instances", {})  # Prefect has no public way to drop them
    for worker in list(workers.values()):
        with suppress(queue.Empty):
            while True:
                worker._queue.get_nowait()
