"""What was asked, as people read it: a text, or the turns of a chat."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradebook.tasks.reporting.drawing.marking import MOST_SHOWN, Segment, segments_of, visible, whole_text

MOST_ROLE = 60  # characters of its name
MOST_TURNS = 20  # of a conversation; of a longer one its first and its last ones are shown
FIRST_TURNS = 2
LEAST_SHOWN = 300  # characters of each turn, however many there are


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said. role: system, user, ...; None where the prompt is a text."""

    role: str | None
    segments: tuple[Segment, ...]
    left_out: int = 0  # turns, in the place of this one


def turns_of(prompt: str | None) -> tuple[Turn, ...]:
    """The turns of a prompt: one without a role where it is no chat; none where there is no prompt."""
    if not prompt:
        return ()
    said = _chat(prompt) or [(None, prompt)]
    most = MOST_SHOWN if sum(len(text) for _, text in said) <= MOST_SHOWN else _share(len(said))
    turns = [Turn(role, segments_of(text, most=most)) for role, text in _kept(said)]
    if len(said) > MOST_TURNS:
        turns.insert(FIRST_TURNS, Turn(None, (), left_out=len(said) - MOST_TURNS))
    return tuple(turns)


def _share(turn_count: int) -> int:
    return max(MOST_SHOWN // min(turn_count, MOST_TURNS), LEAST_SHOWN)


def _kept(said: Sequence[tuple[str | None, str]]) -> Sequence[tuple[str | None, str]]:
    return said if len(said) <= MOST_TURNS else [*said[:FIRST_TURNS], *said[FIRST_TURNS - MOST_TURNS :]]


def _chat(prompt: str) -> list[tuple[str | None, str]] | None:
    """The roles and texts of chat messages as JSON text; None where it is anything else."""
    if not prompt.lstrip().startswith("["):
        return None
    try:
        messages = json.loads(prompt)
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        return None
    return [(visible(message["role"][:MOST_ROLE]), whole_text(_text_of(message))) for message in messages]


def _text_of(message: dict[str, Any]) -> str:
    """A message's text; what else it holds, such as calls of tools, as JSON behind it."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    others = {name: value for name, value in message.items() if name not in {"role", "content"} and value is not None}
    texts = [_part_text(part) for part in parts if part is not None]
    return "\n".join([*texts, *([json.dumps(others, ensure_ascii=False)] if others else [])])


def _part_text(part: Any) -> str:
    """One part of a message: its text, the placeholder of a picture or sound, or its JSON."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        said = part.get("text", part.get(str(part.get("type"))))
        if isinstance(said, str):
            return said
    return json.dumps(part, ensure_ascii=False)
