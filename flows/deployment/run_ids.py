"""Run ids, dates and crash limits of flow runs that a deployment started."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import pairwise

from prefect import State, get_client
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext

from gradebook.rubrics.model.errors import UnfinishedError

MOST_NAME = 48  # characters of the name in a run id; a run id has at most 80
MOST_DEATHS = 4  # processes of one flow run


def deployed_run_id(name: str) -> str | None:
    """Id of the run that this flow run publishes under a name; None if no deployment started the flow run.

    A retry of the flow run, after a crash or by hand, has the same id: it resumes the run, or reads it back if it is
    published. A command has no such id: it resumes the unfinished run of the same request.
    """
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.deployment_id is None or flow_run.expected_start_time is None:
        return None
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:MOST_NAME] or "run"
    return f"{plain}-{flow_run.expected_start_time:%Y%m%d-%H%M%S}-{flow_run.id.hex[:8]}"


def refuse_endless_tries() -> None:
    """Raise `UnfinishedError` in a flow run whose process died `MOST_DEATHS` times, which ends an endless loop.

    Attempts that failed with an error do not count.
    """
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.run_count <= MOST_DEATHS:
        return
    with get_client(sync_client=True) as client:
        states = client.read_flow_run_states(flow_run.id)
    if death_count(states) >= MOST_DEATHS:
        raise UnfinishedError(
            f"the process of this flow run died {MOST_DEATHS} times; finished judgments are stored: find the cause "
            "(memory?), then start the deployment again"
        )


def death_count(states: Sequence[State]) -> int:
    """Number of processes that died; a death may be reported more than once."""
    kinds = [state.type for state in sorted(states, key=lambda state: state.timestamp)]
    seen = [kind for kind in kinds if kind in (StateType.RUNNING, StateType.CRASHED)]
    return sum(pair == (StateType.RUNNING, StateType.CRASHED) for pair in pairwise(seen))


def flow_date() -> date:
    """Local date of this flow run's scheduled start; a retry after midnight has the date of the first attempt."""
    context = FlowRunContext.get()
    expected = context.flow_run.expected_start_time if context and context.flow_run else None
    return (expected or datetime.now(UTC)).astimezone().date()
