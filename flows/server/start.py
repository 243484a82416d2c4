"""An evaluation started from a shell: checked before Prefect's server starts, watched while it runs."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import FrameType
from typing import cast

from gradebook.flows.server.lost import lost_server_told
from gradebook.flows.server.own import begin_own_server
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import prepare_lake
from gradebook.tasks.operations.nightly import Night, NightUnfinished
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest, Use, json_values
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.quality import warm_up
from gradebook.tasks.system.lazy_imports import uncollected
from gradebook.tasks.workspace.folder import RunFolder

PREFECT_LOGS = (
    "PREFECT_LOGGING_LEVEL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL",
)
# Loggers with a level of their own: those of a server of ours, and of threads that were still sending when it ended.
PREFECT_INNER_LOGS = ("PREFECT_SERVER_LOGGING_LEVEL", "PREFECT_INTERNAL_LOGGING_LEVEL")


def evaluate_here(request: EvaluationRequest, *, is_verbose: bool = False) -> tuple[RunSummary, Path]:
    """Run the flow in this process; returns the summary and the report's path.

    Raises `InputError` within a second where the request is wrong: no server is started for it.
    """
    checked = check_request(request)
    with _prefect_at_hand(checked.lake, is_verbose=is_verbose):
        from gradebook.flows.evaluate_outputs import evaluate_outputs

        summary = asyncio.run(evaluate_outputs(**json_values(request, Use.OUTPUTS_FLOW)))
    return summary, RunFolder(checked.lake.root / "runs" / summary.run_id).report_file


def evaluate_night_here(
    suites: Path, night: date | None, only: Sequence[str], lake: str, data: str | None, *, is_verbose: bool = False
) -> Night:
    """Run the flow of a night in this process; how its suites ended, whether or not all did.

    Raises `InputError` where the lake is wrong. suites: a file that was read and found to be right.
    """
    with _prefect_at_hand(find_lake(lake, data), is_verbose=is_verbose):
        from gradebook.flows.evaluate_nightly import evaluate_nightly

        try:
            # mypy sees the state that the flow returns, callers get what is in it
            ended = cast(Night, asyncio.run(evaluate_nightly(str(suites), night, list(only) or None, lake, data)))
        except NightUnfinished as unfinished:
            return unfinished.night
    return ended


@contextmanager
def _prefect_at_hand(lake: Lake, *, is_verbose: bool) -> Iterator[None]:
    """A lake, Prefect's server and what flows are made of, while the block runs one and people see how far it is."""
    from gradebook.flows.display.progress_bars import shown_progress

    prepare_lake(lake)
    for name in PREFECT_LOGS:
        os.environ.setdefault(name, "INFO" if is_verbose else "CRITICAL")  # a failure is told once, in a sentence
    if not is_verbose:
        for name in PREFECT_INNER_LOGS:
            os.environ.setdefault(name, "CRITICAL")
        # Prefect prints Python's warnings; two threads that import at once take back each other's filters of them.
        logging.getLogger("py.warnings").setLevel(logging.CRITICAL)
    server = begin_own_server()
    warm_up()
    with shown_progress(), _interruptible():
        with uncollected():
            if server:
                server.introduce()
            import gradebook.flows.deployment.run_evaluation  # noqa: F401 - here, for it takes as long as the server's start
        if server:
            server.wait()
        with lost_server_told():
            yield


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the run where it stands, while the block runs.

    asyncio would take it and only ask the flow to end, which is deaf to that until all shards are scored; it leaves a
    handler that is not Python's own alone.
    """
    if threading.current_thread() is not threading.main_thread():  # no other may set a handler
        yield
        return
    earlier = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
