"""How stages are carried out: one after the other, or in threads; a flow has Prefect's tasks."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from gradebook.tasks.runs.run import Run

ASKING_THREADS = 8
Given = ParamSpec("Given")
Made = TypeVar("Made")
Pending = Any  # a future of whatever carries a stage out


class Stages:
    """Carries stages out in this thread, one after the other.

    has_suites: the data of each stage is also checked by great-expectations, which takes seconds to import.
    has_cluster: what code decides goes to the workers of a cluster.
    """

    has_suites = False
    has_cluster = False

    @contextmanager
    def opened(self, _run: Run) -> Iterator[None]:
        """Threads or a cluster for one run, while the block runs."""
        yield

    def call(self, stage: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made:
        """Carry a stage out and wait for it."""
        return stage(*given, **named)

    def submit(self, stage: Callable[..., Any], *given: object, after: Sequence[Pending] = ()) -> Pending:
        """Begin a stage that may go on beside others, as soon as those in `after` are done."""
        done: Future[Any] = Future()
        done.set_result(stage(*given))
        return done

    def submit_to_cluster(self, stage: Callable[..., Any], *given: object) -> Pending:
        """Begin a stage at a worker of the cluster; what comes of it may be given to `submit` while it is pending."""
        raise NotImplementedError

    def finish(self, pending: Sequence[Pending]) -> None:
        """Wait for stages to end, then raise the error of the first one that failed."""


class StagesInThreads(Stages):
    """Carries stages out in threads of this process, where they may go on beside others."""

    @contextmanager
    def opened(self, _run: Run) -> Iterator[None]:
        """Threads for one run."""
        with ThreadPoolExecutor(ASKING_THREADS) as self._threads:
            yield

    def submit(self, stage: Callable[..., Any], *given: object, after: Sequence[Pending] = ()) -> Pending:
        """Begin a stage. Threads take stages in order, so whatever it waits for has a thread already."""
        return self._threads.submit(_carry_out, stage, given, after)

    def finish(self, pending: Sequence[Pending]) -> None:
        """As `Stages.finish`; interrupted, it waits for the stages under way and drops the others."""
        try:
            wait(pending)
        except BaseException:
            self._threads.shutdown(cancel_futures=True)
            raise
        for each in pending:
            each.result()


def _carry_out(stage: Callable[..., Any], given: Sequence[object], after: Sequence[Pending]) -> Any:
    for earlier in after:
        earlier.result()
    return stage(*given)
