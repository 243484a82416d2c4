"""What a flow knows of the deployment that started it."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import pairwise

from prefect import State, get_client
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext

from gradebook.rubrics.model.errors import UnfinishedError

MOST_NAME = 48  # characters of a run's id that say what it is of; 80 is the most for all
MOST_DEATHS = 4  # of the processes of a flow run


def deployed_run_id(name: str) -> str | None:
    """The id of the one run that this flow run publishes of a name; None where no deployment started it.

    A retry of the flow run, after a crash or by hand, has the same id: it goes on with the run, or reads it back where
    it is published. A command has none, for it goes on with whichever run of the same it left unfinished.
    """
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.deployment_id is None or flow_run.expected_start_time is None:
        return None
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:MOST_NAME] or "run"
    return f"{plain}-{flow_run.expected_start_time:%Y%m%d-%H%M%S}-{flow_run.id.hex[:8]}"


async def refuse_endless_tries() -> None:
    """Raise `UnfinishedError` in a flow run whose process died time and again: what kills it would kill it for ever.

    A try that failed is none of these: it ended, and said why.
    """
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.run_count <= MOST_DEATHS:
        return
    async with get_client() as client:
        states = await client.read_flow_run_states(flow_run.id)
    if death_count(states) >= MOST_DEATHS:
        raise UnfinishedError(
            f"the process of this flow run ended {MOST_DEATHS} times before its work did; what was judged is kept: "
            "find what ended it (memory?), then start the deployment anew"
        )


def death_count(states: Sequence[State]) -> int:
    """How many processes died: one may be reported more than once."""
    kinds = [state.type for state in sorted(states, key=lambda state: state.timestamp)]
    seen = [kind for kind in kinds if kind in (StateType.RUNNING, StateType.CRASHED)]
    return sum(pair == (StateType.RUNNING, StateType.CRASHED) for pair in pairwise(seen))


def flow_date() -> date:
    """The local date on which this flow run was to start: a retry after midnight has that of its first try."""
    context = FlowRunContext.get()
    expected = context.flow_run.expected_start_time if context and context.flow_run else None
    return (expected or datetime.now(UTC)).astimezone().date()
