"""What a Prefect server does by itself with gradebook's flow runs; a `push` step of prefect.yaml keeps it there."""

from typing import Any

from prefect.automations import Automation

TAG = "gradebook"  # of every deployment in prefect.yaml
SILENCE_S = 90  # of a flow run that says every 30 s that it lives
GATES_NOT_MET = "GatesNotMet"  # the state of a night that is published, of the type Completed
HEARTBEAT, RUNNING = "prefect.flow-run.heartbeat", "prefect.flow-run.Running"
WAITING = ("AwaitingRetry", "Paused", "Suspended")
# A flow run in one of these owes no heartbeat; the first is Completed by another name.
QUIET = (GATES_NOT_MET, "Completed", "Failed", "TimedOut", "Cancelled", "Crashed", *WAITING)
# A worker reports a dead process twice, seconds apart: the second report would crash what goes on already.
REPORTED_S = 20
TAKEN_UP = ("AwaitingRetry", "Scheduled", "Pending", "Running", "Completed", "Cancelled")  # by somebody, meanwhile
_OWN_FLOW_RUNS = {
    "type": "event",
    "match": {"prefect.resource.id": "prefect.flow-run.*"},
    "match_related": {"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"},
    "for_each": ["prefect.resource.id"],
    "threshold": 1,
}


def _events(names: tuple[str, ...]) -> list[str]:
    """The events by which a server tells that a flow run is in one of these states."""
    return [f"prefect.flow-run.{name}" for name in names]


AUTOMATIONS: tuple[dict[str, Any], ...] = (
    {
        "name": "gradebook: a silent run has crashed",
        "description": f"It said nothing for {SILENCE_S} seconds: its process or its machine is gone.",
        "trigger": {
            **_OWN_FLOW_RUNS,
            "posture": "Proactive",
            "after": [RUNNING, HEARTBEAT],  # a process that dies at once sends no heartbeat
            "expect": [HEARTBEAT, *_events(QUIET)],
            "within": SILENCE_S,
        },
        "actions": [{"type": "change-flow-run-state", "state": "CRASHED", "message": "It fell silent."}],
    },
    {
        "name": "gradebook: a crashed run goes on",
        "description": "The same flow run again: it goes on where it stopped, and asks nothing that was answered.",
        "trigger": {
            **_OWN_FLOW_RUNS,
            "posture": "Proactive",
            "after": _events(("Crashed",)),
            "expect": _events(TAKEN_UP),
            "within": REPORTED_S,
        },
        "actions": [
            {
                "type": "change-flow-run-state",
                "name": "AwaitingRetry",
                "state": "SCHEDULED",
                "message": "It had crashed.",
            }
        ],
    },
)


async def keep_automations() -> dict[str, str]:
    """Make or replace them on the server that is deployed to; returns their ids by name."""
    kept = {}
    for wanted in map(Automation.model_validate, AUTOMATIONS):
        try:
            wanted.id = (await Automation.aread(name=wanted.name)).id
        except ValueError:  # none of that name
            await wanted.acreate()
        else:
            await wanted.aupdate()
        kept[wanted.name] = str(wanted.id)
    return kept
