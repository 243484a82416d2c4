"""An evaluation started from a shell: checked before Prefect's server starts, watched while it runs."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from flows.own_server import begin_own_server
from tasks.imports import uncollected
from tasks.lake import prepare_lake
from tasks.quality import warm_up
from tasks.request import EvaluationRequest, check_request
from tasks.summary import RunSummary
from tasks.workspace import RunFolder

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
    from flows.display import shown_progress

    checked = check_request(request)
    prepare_lake(checked.lake)
    for name in PREFECT_LOGS:
        os.environ.setdefault(name, "INFO" if is_verbose else "CRITICAL")  # a failure is told once, in a sentence
    if not is_verbose:
        for name in PREFECT_INNER_LOGS:
            os.environ.setdefault(name, "CRITICAL")
    server = begin_own_server()
    warm_up()
    with shown_progress(), _interruptible():
        with uncollected():
            if server:
                server.introduce()
            from flows.evaluate_outputs import evaluate_outputs
        if server:
            server.wait()

        summary = asyncio.run(
            evaluate_outputs(
                outputs=request.outputs,
                rubric=request.rubric,
                judge=request.judge,
                ratings=request.ratings,
                lake=request.lake,
                data=request.data,
                run_id=request.run_id,
                budget_usd=request.budget_usd,
                max_bad_rate=request.max_bad_rate,
                column_map=dict(request.column_map),
                allow_unscored=request.allow_unscored,
                feedback=request.feedback,
                trigger=request.trigger,
                allow_functions=list(request.allow_functions),
                record=request.record,
                deadline=request.deadline.isoformat() if request.deadline else None,
                baseline=request.baseline,
                fail_if=request.fail_if,
            )
        )
    return summary, RunFolder(checked.lake.root / "runs" / summary.run_id).report_file


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
