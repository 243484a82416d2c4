"""Request of a command that runs a flow in its own process: read and checked once, by the command."""

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


asked: ContextVar[Asked | None] = ContextVar("asked", default=None)  # None: a deployment or a program runs the flow
