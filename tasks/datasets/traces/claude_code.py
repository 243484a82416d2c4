"""Sessions of Claude Code: lines are messages, each with its session; those of sub-agents may be in own files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from gradebook.tasks.datasets.traces.documents import Part
from gradebook.tasks.datasets.traces.fields import count_of, id_of, nanoseconds_of, object_of, sum_of, text_of, timing
from gradebook.tasks.datasets.traces.messages import Turn, chat_messages, joined_text, row_of_conversation

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_NO_MODEL = "<synthetic>"  # of replies that Claude Code wrote itself, such as an error of the API
_KINDS = ("user", "assistant")
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    kind = first.get("type")
    return "sessionId" in first and isinstance(kind, str) and not kind.isupper()  # as of Langfuse's observations


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part]:
    """The line, if it is a message: others tell of the program, such as its queue and its summaries."""
    if document.get("type") in _KINDS and document.get("isMeta") is not True:
        yield Part(id_of("sessionId", document.get("sessionId")), line, dict(document), size)


def read_line(content: Mapping[str, Any]) -> list[Turn]:
    """Messages of a line. A reply that only thought has one without content. Raises `MisfitError`."""
    message = object_of(content.get("message"))
    usage = object_of(message.get("usage"))
    about: dict[str, Any] = timing(nanoseconds_of("timestamp", content.get("timestamp")), None)
    if usage:
        about["tokens"] = sum_of(*(count_of(f"usage.{name}", usage.get(name)) for name in _COUNTED))
    if content.get("isSidechain") is True:
        about["agent"] = "sidechain"
    messages = chat_messages([message], str(content["type"]))
    if content.get("isApiErrorMessage") is True:
        about["error"] = joined_text(messages) or "API error"
    return [Turn(chat_message, about) for chat_message in messages or ([{"role": "assistant"}] if usage else [])]


def row_of_session(session_id: str, read: Iterable[tuple[Part, Sequence[Turn]]], model: str) -> dict[str, Any]:
    """Row of a session. Lines of its sub-agents' files stand where their times put them.

    Each line of a reply states the reply's tokens so far: those of the last count, once, at the reply's last step.
    """
    lines: list[tuple[str | int, Turn]] = []  # each turn with its reply
    for index, (part, line) in enumerate(_by_time(read)):
        message = object_of(part.content.get("message"))
        model_name = text_of(message.get("model"))
        model = model_name if model_name and model_name != _NO_MODEL else model
        lines += [(text_of(message.get("id")) or index, turn) for turn in line]
    tokens = {reply: turn.about["tokens"] for reply, turn in lines if "tokens" in turn.about}
    with_content = {reply for reply, turn in lines if len(turn.message) > 1}
    is_whole = any("agent" not in turn.about for _, turn in lines)  # else a sub-agent's file alone: it is the run
    turns = list[Turn]()
    for reply, turn in reversed(lines):
        if len(turn.message) == 1 and reply in with_content:  # its thoughts alone
            continue
        with_content.add(reply)
        counted = None if turn.message["role"] == "tool" else tokens.pop(reply, None)
        about = {**turn.about, "tokens": counted} | ({} if is_whole else {"agent": None})
        turns.append(turn._replace(about={name: value for name, value in about.items() if value is not None}))
    return row_of_conversation(turns[::-1], model, {"trace_id": session_id, "session_id": session_id})


def _by_time(read: Iterable[tuple[Part, Sequence[Turn]]]) -> list[tuple[Part, Sequence[Turn]]]:
    """Lines of several files in one order, which keeps that of each file."""
    latest: dict[str | None, datetime] = {}
    keyed = []
    for part, line in read:
        started = line[0].about.get("started_at", _EARLIEST) if line else _EARLIEST
        latest[part.source] = max(latest.get(part.source, _EARLIEST), started)
        keyed.append((latest[part.source], part, line))
    return [(part, line) for _, part, line in sorted(keyed, key=itemgetter(0))]
