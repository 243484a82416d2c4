"""Executors of stages: in sequence or in threads; flows use Prefect's tasks instead."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from gradebook.tasks.runs.run import Run

ASKING_THREADS = 8
Given = ParamSpec("Given")
Made = TypeVar("Made")
Pending = Any  # a future of the executor


class Stages:
    """Executor of stages in this thread, in sequence.

    has_suites: whether great-expectations, which takes seconds to import, also checks the data of each stage.
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


class StagesInThreads(Stages):
    """Executor of stages in threads of this process. has_suites: as in `Stages`."""

    def __init__(self, *, has_suites: bool = False) -> None:
        self.has_suites = has_suites

    @contextmanager
    def opened(self, _run: Run) -> Iterator[None]:
        """Open threads for one run."""
        with ThreadPoolExecutor(ASKING_THREADS) as self._threads:
            yield

    def submit(self, stage: Callable[..., Any], *given: object, after: Sequence[Pending] = ()) -> Pending:
        """Start a stage. Threads take stages in order, so the stages in `after` already have a thread."""
        return self._threads.submit(_carry_out, stage, given, after)

    def finish(self, pending: Sequence[Pending]) -> None:
        """As `Stages.finish`; an interrupt drops the stages that wait, and leaves those that run to the judge's end."""
        try:
            wait(pending)
        except BaseException:
            self._threads.shutdown(wait=False, cancel_futures=True)
            raise
        for each in pending:
            each.result()


def _carry_out(stage: Callable[..., Any], given: Sequence[object], after: Sequence[Pending]) -> Any:
    for earlier in after:
        earlier.result()
    return stage(*given)
