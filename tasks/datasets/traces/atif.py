"""Trajectories in ATIF, the format of Harbor's agents: one document for each run."""

from collections.abc import Mapping
from typing import Any

from gradebook.tasks.datasets.traces.fields import (
    amount_of,
    count_of,
    id_of,
    nanoseconds_of,
    object_of,
    objects_of,
    raise_misfit,
    sum_of,
    text_of,
    timing,
)
from gradebook.tasks.datasets.traces.messages import Turn, chat_messages, row_of_conversation

_REFERENCE = "subagent_trajectory_ref"
_ROLES = {"user": "user", "agent": "assistant", "system": "system"}


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    version = first.get("schema_version")
    return isinstance(version, str) and version.startswith("ATIF")


def read_run(document: Mapping[str, Any], default_model: str) -> dict[str, Any]:
    """Row of one document. Raises `MisfitError`."""
    steps = document.get("steps")
    if not isinstance(steps, list) or not steps:
        raise_misfit("steps", steps, "a list of steps")
    agent = object_of(document.get("agent"))
    turns = _all_turns(document, "", agent=None)
    metadata = {"session_id": text_of(document.get("session_id")), "agent": text_of(agent.get("name"))}
    trace_id = text_of(document.get("trajectory_id")) or metadata["session_id"]
    models = (object_of(step).get("model_name") for step in reversed(steps))
    model = next(filter(None, map(text_of, models)), None) or text_of(agent.get("model_name"))
    return row_of_conversation(turns, model or default_model, metadata | {"trace_id": trace_id})


def _all_turns(document: Mapping[str, Any], place: str, agent: str | None) -> list[Turn]:
    """Turns of a trajectory, and behind the step that refers to it those of a sub-agent.

    place: prefix of the fields' names in a `MisfitError`. agent: the sub-agent's name. Usage of copied
    steps counts in the trajectory that they come from.
    """
    inner = {
        text_of(each.get("trajectory_id")): (f"{place}subagent_trajectories[{index}].", each)
        for index, each in enumerate(objects_of(document.get("subagent_trajectories")))
    }
    steps = document.get("steps") or []
    if not isinstance(steps, list):
        raise_misfit(f"{place}steps", steps, "a list of steps")
    turns = list[Turn]()
    for index, step in enumerate(map(object_of, steps)):
        about = ({"agent": agent} if agent else {}) | (
            {"tokens": None, "cost_usd": None} if step.get("is_copied_context") is True else {}
        )
        turns += [turn._replace(about={**turn.about, **about}) for turn in _turns(f"{place}steps[{index}]", step)]
        for reference in (each for result in _results_of(step) for each in objects_of(result.get(_REFERENCE))):
            if found := inner.pop(text_of(reference.get("trajectory_id")), None):
                inner_place, trajectory = found
                name = text_of(object_of(trajectory.get("agent")).get("name")) or "sub-agent"
                turns += _all_turns(trajectory, inner_place, name)
    return turns


def _results_of(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    return objects_of(object_of(step.get("observation")).get("results"))


def _turns(place: str, step: Mapping[str, Any]) -> list[Turn]:
    source = step.get("source")
    if not isinstance(source, str) or source not in _ROLES:
        raise_misfit(f"{place}.source", source, f"one of {', '.join(_ROLES)}")
    calls = [
        {
            "id": call.get("tool_call_id"),
            "function": {"name": call.get("function_name"), "arguments": call.get("arguments")},
        }
        for call in objects_of(step.get("tool_calls"))
    ]
    said = chat_messages([{"role": _ROLES[source], "content": step.get("message") or ""}])
    content = said[0].get("content", "") if said else ""
    message = {"role": _ROLES[source], "content": content} | ({"tool_calls": calls} if calls else {})
    metrics = object_of(step.get("metrics"))
    tokens = [count_of(f"{place}.metrics.{name}", metrics.get(name)) for name in _COUNTED]
    about = timing(nanoseconds_of(f"{place}.timestamp", step.get("timestamp")), None) | {
        "tokens": sum_of(*tokens),
        "cost_usd": amount_of(f"{place}.metrics.cost_usd", metrics.get("cost_usd")),
    }
    results = [
        result | {"type": "tool_result", "tool_call_id": result.get("source_call_id") or _only_id(calls)}
        for result in _results_of(step)
    ]
    return [Turn(message, about), *map(Turn, chat_messages([{"role": "tool", "content": results}]) if results else [])]


_COUNTED = ("prompt_tokens", "completion_tokens")


def _only_id(calls: list[dict[str, Any]]) -> str | None:
    return id_of("tool_call_id", calls[0]["id"]) if len(calls) == 1 else None
