"""Prompt as readable turns: one text, or the messages of a chat."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.prompts.chat import read_chat, readable_message
from gradebook.tasks.reporting.drawing.marking import MOST_SHOWN, Segment, segments_of, visible, whole_text

MOST_ROLE = 60  # characters of a role's name
MOST_TURNS = 20  # turns shown; of a longer conversation the first and the last ones
FIRST_TURNS = 2
LEAST_SHOWN = 300  # characters shown of each turn, at least


@dataclass(frozen=True, slots=True)
class Turn:
    """Message of one side. role: system, user, ...; None if the prompt is a plain text."""

    role: str | None
    segments: tuple[Segment, ...]
    left_out: int = 0  # number of turns that this entry replaces


def turns_of(prompt: str | None) -> tuple[Turn, ...]:
    """Turns of a prompt: one without a role if it is a plain text, none if there is no prompt."""
    if not prompt:
        return ()
    messages = _chat(prompt) or [(None, prompt)]
    most = MOST_SHOWN if sum(len(text) for _, text in messages) <= MOST_SHOWN else _share(len(messages))
    turns = [Turn(role, segments_of(text, most=most)) for role, text in _ends(messages)]
    if len(messages) > MOST_TURNS:
        turns.insert(FIRST_TURNS, Turn(None, (), left_out=len(messages) - MOST_TURNS))
    return tuple(turns)


def _share(turn_count: int) -> int:
    return max(MOST_SHOWN // min(turn_count, MOST_TURNS), LEAST_SHOWN)


def _ends(messages: Sequence[tuple[str | None, str]]) -> Sequence[tuple[str | None, str]]:
    if len(messages) <= MOST_TURNS:
        return messages
    return [*messages[:FIRST_TURNS], *messages[FIRST_TURNS - MOST_TURNS :]]


def _chat(prompt: str) -> list[tuple[str | None, str]]:
    """Roles and texts of chat messages in JSON; none if the prompt is not a list of messages."""
    messages = read_chat(prompt) or []
    return [(visible(message["role"][:MOST_ROLE]), whole_text(_text_of(message))) for message in messages]


def _text_of(message: dict[str, Any]) -> str:
    """Message's text, followed by its other fields, such as tool calls, as JSON."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    shown = readable_message(message)
    others = {name: value for name, value in shown.items() if name not in {"role", "content"} and value is not None}
    texts = [_part_text(part) for part in parts if part is not None]
    return "\n".join([*texts, *([json.dumps(others, ensure_ascii=False)] if others else [])])


def _part_text(part: Any) -> str:
    """Part of a message as text: its own text, the placeholder of an image or audio, or its JSON."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        text = part.get("text", part.get(str(part.get("type"))))
        if isinstance(text, str):
            return text
    return json.dumps(part, ensure_ascii=False)
