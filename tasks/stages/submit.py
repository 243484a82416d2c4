"""Engines: where the stages of a run are executed, in sequence, in threads, or as tasks of a Prefect flow run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, ParamSpec, TypeVar

from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.run import Run

ASKING_THREADS = 8
Given = ParamSpec("Given")
Made = TypeVar("Made")
Pending = Any  # a future of the executor


@dataclass(frozen=True, slots=True)
class Event:
    """Event for other systems. key: equal keys are the same event; related: ids of resources by their role."""

    name: str
    resource: Mapping[str, str]
    payload: Mapping[str, Any]
    key: str
    related: Mapping[str, str] = field(default_factory=dict)


class Stages:
    """Executor of stages in this thread, in sequence; events and artifacts are dropped.

    has_suites: whether the shipped suites of great-expectations run unless the request says otherwise.
    has_cluster: whether checks and schemas go to the workers of a cluster.
    """

    has_suites = False
    has_cluster = False

    @contextmanager
    def opened(self, _run: Run) -> Iterator[None]:
        """Open threads or a cluster for one run, while the block runs."""
        yield

    def call(self, stage: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made:
        """Run a stage and wait for it."""
        return stage(*given, **named)

    def submit(self, stage: Callable[..., Any], *given: object, after: Sequence[Pending] = ()) -> Pending:
        """Start a stage that may run in parallel with others, after those in `after` are done."""
        done: Future[Any] = Future()
        done.set_result(stage(*given))
        return done

    def submit_to_cluster(self, stage: Callable[..., Any], *given: object) -> Pending:
        """Start a stage on a worker of the cluster; the future may be passed to `submit`."""
        raise NotImplementedError

    def finish(self, pending: Sequence[Pending]) -> None:
        """Wait for stages to end, then raise the error of the first one that failed."""

    def run_id(self, _name: str) -> str | None:
        """Id of the run that a deployment's flow run publishes under a name; None outside of one."""
        return None

    def today(self) -> date:
        """Local date of the scheduled start."""
        return datetime.now(UTC).astimezone().date()

    def refuse_endless_tries(self) -> None:
        """Raise `UnfinishedError` in a flow run whose process has died too many times."""

    def show_run(self, run: Run, summary: RunSummary) -> None:
        """Show a published run in the server's UI."""

    def show_text(self, subject: str, kind: str, text: str, description: str) -> None:
        """Show a Markdown text about a subject, such as a suite, in the server's UI."""

    def emit(self, event: Event) -> None:
        """Send an event to the server."""


class StagesInThreads(Stages):
    """Executor of stages in threads of this process."""

    @contextmanager
    def opened(self, _run: Run) -> Iterator[None]:
        """Open threads for one run."""
        with ThreadPoolExecutor(ASKING_THREADS) as self._threads:
            yield

    def submit(self, stage: Callable[..., Any], *given: object, after: Sequence[Pending] = ()) -> Pending:
        """Start a stage. Threads take stages in order, so the stages in `after` already have a thread."""
        return self._threads.submit(_carry_out, stage, given, after)

    def finish(self, pending: Sequence[Pending]) -> None:
        """Wait as `Stages.finish`. An interrupt cancels waiting stages; running stages end with the judge's session."""
        try:
            wait(pending)
        except BaseException:
            self._threads.shutdown(wait=False, cancel_futures=True)
            raise
        for future in pending:
            future.result()


def _carry_out(stage: Callable[..., Any], given: Sequence[object], after: Sequence[Pending]) -> Any:
    for earlier in after:
        earlier.result()
    return stage(*given)
