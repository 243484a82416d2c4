"""Request of a command that runs a flow in its own process; the command checks it once."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.check_request import CheckedRequest


@dataclass(slots=True)
class CommandRequest:
    """Checked request of a command. run: the run that the flow opened for it; None before."""

    request: EvaluationRequest
    checked: CheckedRequest
    run: Run | None = None


_current: ContextVar[CommandRequest | None] = ContextVar("current", default=None)


@contextmanager
def with_command_request(current: CommandRequest) -> Iterator[CommandRequest]:
    """Make a request available to the flows that the block calls."""
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


def command_request() -> CommandRequest | None:
    """Request of the command that runs this flow; None if a deployment or a program runs it.

    A function, since Dask pickles a flow with the globals of its module, and no context variable can be pickled.
    """
    return _current.get()
