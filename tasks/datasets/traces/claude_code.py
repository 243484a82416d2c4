"""Sessions of Claude Code: a file's lines are messages, each with its session."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gradebook.tasks.datasets.traces.fields import count_of, id_of, nanoseconds_of, object_of, sum_of, text_of, timing
from gradebook.tasks.datasets.traces.grouping import Part
from gradebook.tasks.datasets.traces.messages import chat_messages
from gradebook.tasks.datasets.traces.talks import Turn, row_of_talk

_KINDS = ("user", "assistant")
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    is_line = "sessionId" in first and isinstance(first.get("type"), str)
    return is_line or ("leafUuid" in first and first.get("type") == "summary")


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part]:
    """The line, if it is a message: others tell of the program, such as its queue and its summaries."""
    if document.get("type") in _KINDS and document.get("isMeta") is not True:
        yield Part(id_of("sessionId", document.get("sessionId")), line, dict(document), size)


def read_line(content: Mapping[str, Any]) -> list[Turn]:
    """Messages of a line. Raises `MisfitError`."""
    message = object_of(content.get("message"))
    usage = object_of(message.get("usage"))
    about: dict[str, Any] = timing(nanoseconds_of("timestamp", content.get("timestamp")), None)
    if usage:
        about["tokens"] = sum_of(*(count_of(f"usage.{name}", usage.get(name)) for name in _COUNTED))
    if content.get("isSidechain") is True:
        about["agent"] = "sidechain"
    return [Turn(found, about) for found in chat_messages([message], str(content["type"]))]


def row_of_session(session_id: str, read: Iterable[tuple[Part, Sequence[Turn]]], model: str) -> dict[str, Any]:
    """Row of a session. Lines of one reply all have its tokens: they count once."""
    counted: set[str] = set()
    models, done = [], []
    for part, line in read:
        message = object_of(part.content.get("message"))
        reply = text_of(message.get("id"))
        is_repeated = reply is not None and reply in counted
        counted |= {reply} if reply else set()
        models += [message["model"]] if text_of(message.get("model")) else []
        for turn in line:
            about = {name: value for name, value in turn.about.items() if name != "tokens" or not is_repeated}
            done.append(turn._replace(about=about))
    return row_of_talk(done, models[-1] if models else model, {"trace_id": session_id, "session_id": session_id})
