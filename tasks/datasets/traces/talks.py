"""A recorded conversation as a row."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gradebook.tasks.datasets.conversations import id_of_prompt, places_asked, steps_of_messages
from gradebook.tasks.datasets.traces.messages import Message, said_by


class Turn(NamedTuple):
    """A message with what was recorded of it: the fields of its step, such as started_at and tokens."""

    message: Message
    about: Mapping[str, Any] = {}


def row_of_talk(turns: Sequence[Turn], model: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Row of a conversation: what the assistant was asked first is the prompt, all the rest are steps.

    The answer is the last text of the assistant itself, not of an agent that it called.
    """
    places = set(places_asked([{**turn.message, **turn.about} for turn in turns]))
    asked = [turn.message for place, turn in enumerate(turns) if place in places]
    done = [turn for place, turn in enumerate(turns) if place not in places]
    return {
        "case_id": id_of_prompt(asked),
        "model": model,
        "prompt": asked or None,
        "output": said_by(turn.message for turn in done if "agent" not in turn.about),
        "steps": steps_of_messages([turn.message for turn in done], [turn.about for turn in done]),
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }
