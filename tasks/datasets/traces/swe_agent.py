"""Trajectories of SWE-agent (.traj) and mini-SWE-agent (.traj.json): one document for each run.

Shapes: docs/usage/trajectories.md of SWE-agent/SWE-agent, docs/usage/output_files.md of SWE-agent/mini-swe-agent.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradebook.tasks.datasets.traces.fields import (
    amount_of,
    count_of,
    decoded,
    object_of,
    objects_of,
    raise_misfit,
    sum_of,
    text_of,
)
from gradebook.tasks.datasets.traces.messages import Message, Turn, chat_messages, row_of_conversation

_COMMAND = re.compile(r"```[a-z_-]*\n(.*?)\n?```", re.DOTALL)
_SHELL = "bash"
_PROMPT_KEYS = ("system", "user")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    if str(first.get("trajectory_format", "")).startswith("mini-swe-agent"):
        return True
    steps, history = objects_of(first.get("trajectory")), objects_of(first.get("history"))
    is_demonstration = bool(history) and {"role", "agent"} <= history[0].keys()
    return is_demonstration or (bool(steps) and {"action", "observation"} <= steps[0].keys())


def read_run(document: Mapping[str, Any], default_model: str) -> dict[str, Any]:
    """Row of one document. Its output is what was submitted, else the last text. Raises `MisfitError`."""
    info = object_of(document.get("info"))
    history = objects_of(document.get("history")) or objects_of(document.get("messages"))
    if not history:
        raise_misfit("history" if "trajectory" in document else "messages", history, "a list of messages")
    messages = [message for message in history if message.get("is_demo") is not True]
    steps = objects_of(document.get("trajectory"))
    turns = [*(_of_steps(messages, steps) if steps else _of_messages(messages))]
    _add_totals(turns, object_of(info.get("model_stats")))
    config = object_of(decoded(document.get("replay_config")))
    agent = object_of(object_of(config.get("agent")).get("model"))
    mini = object_of(object_of(info.get("config")).get("model"))
    model = text_of(agent.get("name")) or text_of(mini.get("model_name")) or default_model
    problem = object_of(config.get("problem_statement")).get("id")
    instance = text_of(document.get("instance_id")) or text_of(problem)
    row = row_of_conversation(turns, model, {"trace_id": instance, "exit_status": text_of(info.get("exit_status"))})
    submitted = text_of(info.get("submission"))
    return row | ({"output": submitted} if submitted else {}) | ({"case_id": instance} if instance else {})


def _of_steps(messages: Sequence[Message], steps: Sequence[Mapping[str, Any]]) -> Iterator[Turn]:
    """Prompt, then each step: the thought and call of the model, and its observation."""
    first = next((index for index, message in enumerate(messages) if message.get("role") == "assistant"), len(messages))
    yield from (Turn(chat_message) for message in messages[:first] for chat_message in chat_messages([_plain(message)]))
    replies = [message for message in messages if message.get("role") == "assistant"]
    are_alike = len(replies) == len(steps)  # some histories are shortened
    for index, step in enumerate(steps):
        chat = chat_messages([_plain(replies[index])], "assistant") if are_alike else []
        calls = chat[0].get("tool_calls") if chat else None
        yield from _step(step, calls or _call(text_of(step.get("action"))))


def _step(step: Mapping[str, Any], calls: list[Message]) -> Iterator[Turn]:
    text = text_of(step.get("thought")) or text_of(step.get("response")) or ""
    yield Turn({"role": "assistant", "content": text.strip()} | ({"tool_calls": calls} if calls else {}))
    if calls:
        seconds = amount_of("execution_time", step.get("execution_time"))
        about = {} if seconds is None else {"latency_ms": seconds * 1e3}
        result = {"role": "tool", "tool_call_id": calls[0].get("id"), "content": step.get("observation") or ""}
        yield Turn(result, about)


def _of_messages(messages: Sequence[Message]) -> Iterator[Turn]:
    """Turns of mini-SWE-agent: what follows a reply as a user's message is what its command gave back."""
    has_replied, waiting = False, False
    for chat_message in messages:
        role = chat_message.get("role")
        if role == "assistant":
            actions = objects_of(object_of(chat_message.get("extra")).get("actions"))
            commands = [text for action in actions if (text := text_of(action.get("command")))]
            match = _COMMAND.search(str(chat_message.get("content", "")))
            plain = chat_messages([_plain(chat_message)], "assistant")
            for message in plain[:1] or [{"role": "assistant"}]:
                calls = message.get("tool_calls") or [call for command in commands for call in _call(command, _SHELL)]
                calls = calls or _call(match[1] if match else None, _SHELL)
                yield Turn(message | ({"tool_calls": calls} if calls else {}))
                waiting = bool(calls)
            has_replied = True
        elif role in _PROMPT_KEYS and not (has_replied and waiting):
            yield from (Turn(chat_message) for chat_message in chat_messages([_plain(chat_message)]))
        elif role in ("user", "tool"):
            results = {
                "role": "tool",
                "content": chat_message.get("content") or "",
                "tool_call_id": _plain(chat_message).get("tool_call_id"),
            }
            yield from (Turn(message) for message in chat_messages([results]))


def _plain(message: Message) -> Message:
    """Message without what SWE-agent adds; a result names its calls in a list."""
    ids = message.get("tool_call_ids")
    call = {"tool_call_id": ids[0]} if isinstance(ids, list) and ids else {}
    names = ("role", "content", "tool_calls", "tool_call_id")
    return {name: message[name] for name in names if message.get(name) is not None} | call


def _call(action: str | None, name: str | None = None) -> list[Message]:
    """Call that a command is, by its first word."""
    command_words = (action or "").split(maxsplit=1)
    if not command_words:
        return []
    return [{"id": None, "function": {"name": name or command_words[0], "arguments": (action or "").strip()}}]


def _add_totals(turns: list[Turn], stats: Mapping[str, Any]) -> None:
    """Tokens and cost of the run, which are known in total alone, at its last reply."""
    counts = [count_of(f"model_stats.{name}", stats.get(name)) for name in ("tokens_sent", "tokens_received")]
    totals = {
        "tokens": sum_of(*counts) or None,
        "cost_usd": amount_of("model_stats.instance_cost", stats.get("instance_cost")),
    }
    present = {name: value for name, value in totals.items() if value is not None}
    last = next((index for index in reversed(range(len(turns))) if turns[index].message["role"] == "assistant"), None)
    if last is not None and present:
        turns[last] = turns[last]._replace(about={**turns[last].about, **present})
