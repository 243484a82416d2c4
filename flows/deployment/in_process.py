"""Request of a command that runs a flow in its own process: read and checked once, by the command."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.check_request import CheckedRequest


@dataclass(slots=True)
class Asked:
    """Request of a command, checked. run: the run that the flow opened for it, None until then."""

    request: EvaluationRequest
    checked: CheckedRequest
    run: Run | None = None


_asked: ContextVar[Asked | None] = ContextVar("asked", default=None)


@contextmanager
def asking(asked: Asked) -> Iterator[Asked]:
    """Let flows that the block calls find its request."""
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


def asked_here() -> Asked | None:
    """Request of the command that runs this flow; None where a deployment or a program runs it.

    A function, since Dask pickles a flow with the globals of its module, and no context variable can be pickled.
    """
    return _asked.get()
