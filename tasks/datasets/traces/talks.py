"""A recorded conversation as a row."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from gradebook.tasks.datasets.conversations import id_of_prompt, steps_of_messages
from gradebook.tasks.datasets.traces.messages import Message, said_by


class Turn(NamedTuple):
    """A message with what was recorded of it: the fields of its step, such as started_at and tokens."""

    message: Message
    about: Mapping[str, Any] = {}


def row_of_talk(turns: Sequence[Turn], model: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Row of a conversation: what comes before the assistant's first message is the prompt, all after it are steps.

    The answer is the last text of the assistant itself, not of an agent that it called.
    """
    asked = list(takewhile(lambda message: message["role"] != "assistant", (turn.message for turn in turns)))
    done = turns[len(asked) :]
    return {
        "case_id": id_of_prompt(asked),
        "model": model,
        "prompt": asked or None,
        "output": said_by(turn.message for turn in done if "agent" not in turn.about),
        "steps": steps_of_messages([turn.message for turn in done], [turn.about for turn in done]),
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }
