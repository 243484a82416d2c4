"""Rollouts of Codex CLI: a session is a file, whose lines are messages, calls and events in order.

Shapes: `RolloutItem` of openai/codex, codex-rs/protocol. Messages stand twice, as what the model read and wrote
(`response_item`), which is read here, and as events for the screen.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gradebook.tasks.datasets.traces.documents import Document
from gradebook.tasks.datasets.traces.fields import (
    amount_of,
    count_of,
    decoded,
    nanoseconds_of,
    object_of,
    objects_of,
    text_of,
    timing,
)
from gradebook.tasks.datasets.traces.messages import Turn, chat_messages, row_of_conversation

_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_INSTRUCTIONS = ("system", "developer")
# How newer commands begin their output.
_EXIT = re.compile(
    r"(?:Exit code: (?P<shell>-?\d{1,9})\n)?(?:Chunk ID: .*\n)?Wall time: (?P<seconds>\d{1,9}(?:\.\d{1,9})?) seconds\n"
    r"(?:Process exited with code (?P<exec>-?\d{1,9})\n)?"
)
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    return first.get("type") in _LINES and isinstance(first.get("payload"), dict)


def sessions(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Lines of each session. A fork's own head is followed by those of the session that it continues."""
    lines: list[Document] = []
    for document in documents:
        head = _payload(document, "session_meta")
        before = _payload(lines[0], "session_meta") if lines else {}
        is_other = head and before and head.get("id") != before.get("id") and not before.get("forked_from_id")
        if lines and (is_other or document.source != lines[0].source):
            yield lines
            lines = []
        lines.append(document)
    if lines:
        yield lines


def row_of_session(lines: Sequence[Document], model: str) -> dict[str, Any]:
    """Row of a session. What Codex itself tells the model (its settings, AGENTS.md) is no part of the prompt.

    Tokens are the growth of the session's total, at the last reply before it was stated. Raises `MisfitError`.
    """
    typed_texts = {text for line in lines if (text := _typed_by_user(_payload(line, "event_msg"))) is not None}
    turns: list[Turn] = []
    total = 0
    for line in lines:
        model = text_of(_payload(line, "turn_context").get("model")) or model
        if item := _payload(line, "response_item"):
            started = nanoseconds_of("timestamp", object_of(line.content).get("timestamp"))
            turns += _turns(item, timing(started, None), typed_texts)
        usage = object_of(object_of(_payload(line, "event_msg").get("info")).get("total_token_usage"))
        stated = count_of("total_token_usage.total_tokens", usage.get("total_tokens"))
        if stated is not None and stated != total:
            _add_tokens(turns, stated - total if stated > total else stated)  # below: it counts anew after a resume
            total = stated
    session = text_of(_payload(lines[0], "session_meta").get("id"))
    return row_of_conversation(turns, model, {"trace_id": session, "session_id": session})


def _payload(line: Document, kind: str) -> dict[str, Any]:
    content = object_of(line.content)
    return object_of(content.get("payload")) if content.get("type") == kind else {}


def _typed_by_user(event: Mapping[str, Any]) -> str | None:
    return str(event.get("message", "")).strip() if event.get("type") == "user_message" else None


def _turns(item: Mapping[str, Any], about: Mapping[str, Any], typed_texts: set[str]) -> list[Turn]:
    kind, role = item.get("type"), item.get("role")
    if kind == "message" and (
        role in _INSTRUCTIONS or (role == "user" and typed_texts and not _is_typed_by_user(item, typed_texts))
    ):
        return []
    if kind in _OUTPUTS:
        message, more = _result(item)
        return [Turn(message, {**about, **more} if more else {})]
    if kind == "custom_tool_call":
        item = {**item, "type": "function_call", "arguments": item.get("input")}
    return [Turn(message, about) for message in chat_messages([dict(item)], "assistant")]


def _is_typed_by_user(item: Mapping[str, Any], typed_texts: set[str]) -> bool:
    """Whether a user typed the message; the text also has other words if there are pictures."""
    parts = objects_of(item.get("content"))
    text = "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "input_text").strip()
    has_others = any(part.get("type") != "input_text" for part in parts)
    return text in typed_texts or (has_others and any(typed in text for typed in typed_texts))


def _result(item: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Result of a call, and its time: commands wrap their text with an exit code and a duration."""
    output = item.get("output")
    fields, metadata = object_of(decoded(output)), object_of(object_of(decoded(output)).get("metadata"))
    # A result may itself be JSON; only a wrapper is taken off.
    is_wrapped = isinstance(output, dict) or (isinstance(fields.get("output"), str) and bool(metadata))
    wrapped = fields if is_wrapped else {}
    text = wrapped.get("output", wrapped.get("content")) if wrapped else output
    chat = chat_messages([{"role": "tool", "content": text}]) if isinstance(text, list) else []
    text = chat[0].get("content", text) if chat else text
    message = {"role": "tool", "tool_call_id": item.get("call_id"), "content": text if text is not None else ""}
    stated = _EXIT.match(text) if isinstance(text, str) else None
    code = int(stated["shell"] or stated["exec"] or 0) if stated else metadata.get("exit_code")
    failed = code not in (0, None) or wrapped.get("success") is False
    seconds = float(stated["seconds"]) if stated else metadata.get("duration_seconds")
    duration = amount_of("duration_seconds", seconds)
    return message | ({"is_error": True} if failed else {}), {} if duration is None else {"latency_ms": duration * 1e3}


def _add_tokens(turns: list[Turn], count: int) -> None:
    """Add tokens to the last reply; there is none before the first."""
    for index in reversed(range(len(turns))):
        if turns[index].message.get("role") == "assistant":
            about = turns[index].about
            turns[index] = turns[index]._replace(about={**about, "tokens": about.get("tokens", 0) + count})
            return
