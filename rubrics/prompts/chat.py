"""Prompts of chat messages: read from their stored JSON, and shown to a judge as messages."""

import json
from collections.abc import Mapping
from typing import Any

CHAT_VERSION = "chat_v1"  # part of the digest of a case with such a prompt: identifies how messages are shown

Message = dict[str, Any]


def read_chat(prompt: str | None) -> list[Message] | None:
    """Messages of a prompt; None if it is a plain text."""
    if not prompt or not prompt.lstrip().startswith("["):
        return None
    try:
        messages = json.loads(prompt, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None
    is_chat = bool(messages) and all(
        isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages
    )
    return messages if is_chat else None


def shown_prompt(prompt: str | None) -> str | list[Message] | None:
    """Prompt as a judge sees it: a plain text, or messages in the order written."""
    messages = read_chat(prompt)
    return prompt if messages is None else [readable_message(message) for message in messages]


def readable_message(message: Mapping[str, Any]) -> Message:
    """Message with its role first, then content, then other keys; arguments of tool calls as parsed values."""
    ordered = {name: message[name] for name in ("role", "content") if name in message}
    readable: Message = {**ordered, **message}
    if isinstance(calls := readable.get("tool_calls"), list):
        readable["tool_calls"] = [_readable_call(call) for call in calls]
    if "function_call" in readable:
        readable["function_call"] = _readable_function(readable["function_call"])
    return readable


def _readable_call(call: Any) -> Any:
    return call | {"function": _readable_function(call["function"])} if _has(call, "function") else call


def _readable_function(function: Any) -> Any:
    if not _has(function, "arguments") or not isinstance(function["arguments"], str):
        return function
    ordered = {name: function[name] for name in ("name",) if name in function}
    return ordered | function | {"arguments": _values(function["arguments"])}


def _has(value: Any, name: str) -> bool:
    return isinstance(value, dict) and name in value


def _values(text: str) -> Any:
    """Parsed JSON object; the text itself if it is none, or if parsing would lose something."""
    try:
        values = json.loads(
            text, object_pairs_hook=_without_repeats, parse_float=_same_float, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError):
        return text
    return values if isinstance(values, dict) else text


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is repeated")
    return values


def _same_float(text: str) -> float:
    if repr(value := float(text)) != text:
        raise ValueError("another text than that of the number")
    return value


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")
