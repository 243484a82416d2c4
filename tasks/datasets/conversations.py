"""Rows that hold a conversation whose last message is the answer, as OpenAI's files do: the column `messages`.

Where the assistant called tools, the conversation is a trajectory: what was asked before the assistant's first message
is the prompt, and what follows are the steps that led to the answer.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import dropwhile, repeat, takewhile
from pathlib import Path
from typing import Any

import orjson

from gradebook.rubrics.model.canonical import canonical_json
from gradebook.rubrics.model.columns import holds_conversations, left_to_conversations
from gradebook.rubrics.model.outputs import describe_value
from gradebook.rubrics.prompts.media import media_source
from gradebook.tasks.datasets.file_formats import RawRow, name_without_suffixes
from gradebook.tasks.datasets.row_parser import read_messages

Message = Mapping[str, Any]
_TOOL_ROLES = ("tool", "function")
_STEP_KINDS = {"assistant": "model", "system": "system", "developer": "system"}  # of the other roles: user


def split_conversation(raw: RawRow, column_map: Mapping[str, str], *, is_run: bool = False) -> RawRow:
    """Row with the last message as its output and those before as its prompt; a row without `messages` unchanged.

    A row without an id has one made of its prompt, a row without a model is named after its file. A conversation with
    results of tools gets steps, unless the row has some. is_run: every conversation gets them.
    """
    content = raw.content
    if isinstance(content, str) or not holds_conversations(content, column_map, is_run=is_run):
        return raw
    return raw._replace(content=answered_row(content, raw.source, column_map, is_run=is_run))


def answered_row(
    content: dict[str, Any], source: str, column_map: Mapping[str, str], *, is_run: bool = False
) -> dict[str, Any] | str:
    """Row of a conversation as `split_conversation` makes it, or the reason why it does not fit. source: its file."""
    try:
        found = _split(content, is_run)
        if isinstance(found, dict):
            made = {"case_id": id_of_prompt(found["prompt"]), "model": name_without_suffixes(Path(source))}
            found |= {column: made[column] for column in left_to_conversations(content, column_map, is_run=is_run)}
        return found
    except orjson.JSONEncodeError as error:
        return f"messages: found values that can't be kept as JSON ({error}), expected fewer levels of nesting"


def id_of_prompt(prompt: Any) -> str:
    """Id of the case that a prompt is, where the row names none."""
    return f"prompt-{blake2b(canonical_json(prompt).encode(), digest_size=6).hexdigest()}"


def _split(content: dict[str, Any], is_run: bool) -> dict[str, Any] | str:
    messages = read_messages(content["messages"])
    if not messages or not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        expected = "expected a list of chat messages, the answer last"
        return f"messages: found {describe_value(content['messages'])}, {expected}"
    # Parquet gives every message the keys of all.
    given = [{name: value for name, value in message.items() if value is not None} for message in messages]
    is_run = is_run or any(message.get("role") in _TOOL_ROLES for message in given)
    rest = {name: value for name, value in content.items() if name != "messages"}
    ends = [place for place, message in enumerate(given) if message.get("role") == "assistant"]
    is_answered = ends[-1:] == [len(given) - 1]
    if not ends or not (is_run or is_answered):
        found = f"found {describe_value(given[-1].get('role'))} as the role of the last message"
        run = ", or --from chat: the run of an agent, whose last text is the answer" if ends else ""
        return f'messages: {found}, expected "assistant", the answer, or an `output` beside the messages{run}'
    if not is_run:
        return rest | {"prompt": given[:-1] or None} | _answer(given[-1])
    asked = set(places_asked(given))
    steps = steps_of_messages([message for place, message in enumerate(given) if place not in asked])
    if is_answered:
        answer = _answer(given[-1])
    else:
        said = (step["output"] for step in reversed(steps) if step["kind"] == "model" and step["output"])
        answer = {"output": next(said, "")}
    prompt = [message for place, message in enumerate(given) if place in asked]
    return {"prompt": prompt or None, "steps": steps, **answer, **rest}


def _answer(message: Message) -> dict[str, Any]:
    """Columns of the assistant's last message."""
    others = {name: value for name, value in message.items() if name not in ("role", "content")}
    output = text_of(message.get("content"))
    if not output and others:  # tool calls or a refusal are all there is of the answer
        output = others["refusal"] if isinstance(others.get("refusal"), str) else canonical_json(others)
        others = {}
    return ({"answer": others} if others else {}) | {"output": output}


def places_asked(messages: Sequence[Message]) -> list[int]:
    """Places of what an assistant was asked: all before its first message, and the user's first turn.

    A message of an `agent` counts as the assistant's.
    """
    roles = ["assistant" if "agent" in message else message.get("role") for message in messages]
    first = list(takewhile(lambda place: roles[place] != "assistant", range(len(roles))))
    if any(_STEP_KINDS.get(str(roles[place])) is None for place in first):
        return first
    later = dropwhile(lambda place: roles[place] != "user", range(len(first), len(roles)))
    return [*first, *takewhile(lambda place: roles[place] == "user", later)]


def steps_of_messages(
    messages: Sequence[Message], about: Iterable[Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Steps of a conversation, as a row has them: one for each message, and one for each tool call with its result.

    A result is matched with the earliest open call of its id, else of its name; one that has neither is that of the
    earliest open call. One without a call is a step of its own. about: further fields of each message's step, such as
    `tokens`; its `agent` is also that of the message's calls. Images and sounds are named in a step's text, and not
    shown.
    """
    steps: list[dict[str, Any]] = []
    open_calls: dict[Any, deque[dict[str, Any]]] = {}
    for message, fields in zip(messages, about or repeat({}), strict=False):
        role, text = message.get("role"), _step_text(message.get("content"))
        if role in _TOOL_ROLES:
            call = _closed_call(open_calls, message)
            if call is None:
                call = {"kind": "tool", "name": _name(message.get("name"))}
                steps.append(call)
            error = _name(message.get("error")) or text or "failed"
            call |= {"output": text} | ({"error": error} if message.get("is_error") is True else {})
            call |= fields if "latency_ms" in fields else {}
            continue
        parent = len(steps)
        kind, agent = _STEP_KINDS.get(str(role), "user"), _name(message.get("name"))
        steps.append({"kind": kind, "agent": agent, "output": text, **fields})
        for called in _calls(message):
            given = called.get("function")
            function = given if isinstance(given, dict) else called
            step = {"kind": "tool", "name": _name(function.get("name")), "parent_index": parent}
            step |= {"agent": fields["agent"]} if "agent" in fields else {}
            step["input"] = function.get("arguments", function.get("input"))
            steps.append(step)
            open_calls.setdefault(_name(called.get("id")) or step["name"], deque()).append(step)
    return steps


def _closed_call(open_calls: dict[Any, deque[dict[str, Any]]], message: Message) -> dict[str, Any] | None:
    """Step of the call that a result belongs to, which is open no longer."""
    names = [name for name in (_name(message.get("tool_call_id")), _name(message.get("name"))) if name]
    key = next((name for name in names if name in open_calls), None if names else next(iter(open_calls), None))
    if key not in open_calls:
        return None
    step = open_calls[key].popleft()
    if not open_calls[key]:
        del open_calls[key]
    return step


def _calls(message: Message) -> list[dict[str, Any]]:
    """Tool calls of a message, also in the form from before `tool_calls` existed."""
    calls = message.get("tool_calls")
    found = calls if isinstance(calls, list) else [message.get("function_call")]
    return [call for call in found if isinstance(call, dict)]


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def text_of(content: Any) -> Any:
    """Text of an answer; of parts that are not all texts their JSON, which shows images and sounds."""
    if not isinstance(content, list):
        return content or ""
    return _joined(content) if all(_is_text(part) for part in content) else canonical_json(content)


def _step_text(content: Any) -> Any:
    kinds = [media_source(part)[0] for part in content] if isinstance(content, list) else []
    if not any(kinds):
        return text_of(content)
    return "\n".join(f"[{kind}]" if kind else text_of([part]) for kind, part in zip(kinds, content, strict=True))


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _joined(parts: Iterable[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts)
