"""Automations of a Prefect server for gradebook's flow runs; a `push` step of prefect.yaml creates them."""

from typing import Any

from prefect.automations import Automation

from gradebook.flows.deployment.names import GATES_NOT_MET

TAG = "gradebook"  # tag of every deployment in prefect.yaml
SILENCE_S = 90  # a flow run without a heartbeat for so long is dead; they send one every 30 s
HEARTBEAT, RUNNING = "prefect.flow-run.heartbeat", "prefect.flow-run.Running"
WAITING = ("AwaitingRetry", "Paused", "Suspended")
# States in which a flow run sends no heartbeat; the first is a state of type Completed.
QUIET = (GATES_NOT_MET, "Completed", "Failed", "TimedOut", "Cancelled", "Crashed", *WAITING)
# A worker reports a dead process twice, seconds apart: the second report would crash the resumed flow run.
REPORTED_S = 20
TAKEN_UP = (
    "AwaitingRetry",
    "Scheduled",
    "Pending",
    "Running",
    "Completed",
    "Cancelled",
)  # states of a flow run that needs no resume
_OWN_FLOW_RUNS = {
    "type": "event",
    "match": {"prefect.resource.id": "prefect.flow-run.*"},
    "match_related": {"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"},
    "for_each": ["prefect.resource.id"],
    "threshold": 1,
}


def _events(names: tuple[str, ...]) -> list[str]:
    """Names of the events that report these states of a flow run."""
    return [f"prefect.flow-run.{name}" for name in names]


AUTOMATIONS: tuple[dict[str, Any], ...] = (
    {
        "name": "gradebook: a silent run has crashed",
        "description": f"No heartbeat for {SILENCE_S} seconds: the process or its machine is gone.",
        "trigger": {
            **_OWN_FLOW_RUNS,
            "posture": "Proactive",
            "after": [RUNNING, HEARTBEAT],  # a process that dies at once sends no heartbeat
            "expect": [HEARTBEAT, *_events(QUIET)],
            "within": SILENCE_S,
        },
        "actions": [{"type": "change-flow-run-state", "state": "CRASHED", "message": "No heartbeat."}],
    },
    {
        "name": "gradebook: a crashed run goes on",
        "description": "Starts the same flow run again: it resumes, and sends no answered question again.",
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
                "message": "Resumed after a crash.",
            }
        ],
    },
)


async def keep_automations() -> dict[str, str]:
    """Create or replace the automations on the server; returns their ids by name."""
    ids = {}
    for automation in map(Automation.model_validate, AUTOMATIONS):
        try:
            automation.id = (await Automation.aread(name=automation.name)).id
        except ValueError:  # there is no automation of that name
            await automation.acreate()
        else:
            await automation.aupdate()
        ids[automation.name] = str(automation.id)
    return ids
