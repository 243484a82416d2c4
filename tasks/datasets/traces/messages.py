"""Messages of all dialects as chat messages: an object with a role, a content, and tool calls where there are some."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradebook.rubrics.prompts.media import media_source
from gradebook.tasks.datasets.traces.fields import decoded, first_of, object_of, objects_of, text_of

Message = dict[str, Any]
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "developer": "system"}
_TEXTS = ("text", "input_text", "output_text")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")  # of the model alone: no answer to anybody
_CALLS = ("tool_call", "tool_use", "function_call")
_MEDIA_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
}
_WRAPPINGS = ("source", "inline_data", "inlineData", "image_url", "input_audio")
_ADDRESSES = ("url", "uri", "image_url", "image", "audio")
_CONTENTS = ("data", "base64", "content")
_RESULTS = ("tool_call_response", "tool_result", "function_call_output")


def chat_messages(given: Any, role: str = "user") -> list[Message]:
    """Chat messages from a list of messages, one message, its text, or JSON of these. role: where none is said."""
    if given is None:
        return []
    value = decoded(given)
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    if isinstance(value, dict):
        value = value["messages"] if isinstance(value.get("messages"), list) else [value]
    if isinstance(value, list) and value and isinstance(value[0], list):  # LangChain batches its prompts
        value = value[0]
    found = (each for message in objects_of(value) for each in _of_message(message, role))
    return [message for message in found if len(message) > 1]


def _of_message(given: Message, role: str) -> Iterable[Message]:
    """Messages from one of any dialect: results of tools in it become messages of their own."""
    message = given
    for name in ("kwargs", "data", "message"):  # as LangChain and others write them
        if isinstance(inner := message.get(name), dict):
            message = message | inner
    said = message.get("role") or message.get("type")
    name = said if isinstance(said, str) and said not in _TEXTS and said != "constructor" else role
    parts = message.get("parts", message.get("content"))
    if isinstance(parts, dict):
        parts = [parts]
    results: list[Message] = []
    calls = [_call(call) for call in objects_of(message.get("tool_calls"))]
    content = parts
    if isinstance(parts, list):
        texts, called, results = _sorted(parts)
        yield from results
        calls += called
        content = _content(texts)
    made: Message = {"role": _ROLES.get(name, name)}
    if content not in (None, "", []):
        made["content"] = content
    if calls:
        made["tool_calls"] = calls
    if made["role"] == "tool" and not results:
        made = {"content": ""} | made | {"tool_call_id": message.get("tool_call_id", message.get("id"))}
        made |= _failure(message)
    elif text_of(message.get("name")):
        made["name"] = message["name"]
    if len(made) > 1 and set(made) != {"role", "name"}:
        yield made


def _sorted(parts: list[Any]) -> tuple[list[Any], list[Message], list[Message]]:
    """Texts and other parts of a message, its calls of tools, and results of such."""
    texts, calls, results = list[Any](), list[Message](), list[Message]()
    for part in parts:
        kind = part.get("type", "text") if isinstance(part, dict) else "text"
        if kind in _CALLS:
            calls.append(_call(part))
        elif kind in _RESULTS:
            results.append(_result(part))
        elif kind not in _THOUGHTS:
            texts.append(part)
    return texts, calls, results


def _content(parts: list[Any]) -> Any:
    """Texts joined where the parts are nothing else; beside others, they and media as the parts of a chat message."""
    texts = [part if isinstance(part, str) else _text(part) for part in parts]
    if None not in texts:
        return "\n".join(text for text in texts if text)
    return [
        (_medium(part) or part) if text is None else {"type": "text", "text": text}
        for text, part in zip(texts, parts, strict=True)
    ]


def _medium(given: Any) -> Message | None:
    """Image or sound of any dialect as a chat message's part; None for other parts."""
    part = object_of(given)
    inner = next((part[name] for name in _WRAPPINGS if isinstance(part.get(name), dict)), part)
    mime = text_of(first_of(inner, ("media_type", "mime_type", "mimeType"))) or ""
    kind = _MEDIA_KINDS.get(str(part.get("type"))) or mime.partition("/")[0]
    address, content = text_of(first_of(inner, _ADDRESSES)), text_of(first_of(inner, _CONTENTS))
    if media_source(part)[0] or kind not in _MEDIA_KINDS.values() or not (address or content):
        return None
    if address is None:
        address = f"data:{mime or f'{kind}/*'};base64,{content}"
    elif not address.startswith(("data:", "file:", "http:", "https:")):
        address = f"file:{address}"
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": address}}
    return {"type": "input_audio", "input_audio": {"data": address}}


def _text(part: Any) -> str | None:
    given = object_of(part)
    if given.get("type", "text") not in _TEXTS:
        return None
    text = given.get("text", given.get("content"))
    return text if isinstance(text, str) else None


def _call(given: Message) -> Message:
    function = given.get("function")
    call = function if isinstance(function, dict) else given | ({"name": function} if function else {})
    arguments = next((call[name] for name in ("arguments", "args", "input") if name in call), None)
    return {"id": given.get("id", given.get("call_id")), "function": {"name": call.get("name"), "arguments": arguments}}


def _result(part: Message) -> Message:
    ids = (part.get(name) for name in ("tool_use_id", "tool_call_id", "call_id", "id"))
    result = next((part[name] for name in ("response", "result", "content", "output") if name in part), "")
    if isinstance(result, list):
        result = _content(result)
    made = {"role": "tool", "content": result, "tool_call_id": next((each for each in ids if each), None)}
    return made | _failure(part)


def _failure(result: Message) -> Message:
    """Mark of a tool's result that is an error, with the error's text where it has one besides the content."""
    error = result.get("error")
    if not (error or result.get("status") == "error" or result.get("is_error") is True):
        return {}
    text = text_of(error) or text_of(first_of(object_of(error), ("message", "type")))
    return {"is_error": True} | ({"error": text} if text else {})


def last_content(messages: Sequence[Message]) -> Any:
    """Content of the last message; None without one."""
    return messages[-1].get("content") if messages else None


def said_by(messages: Iterable[Mapping[str, Any]]) -> str:
    """Text of the last message of an assistant that has one; empty without."""
    contents = [message.get("content") for message in messages if message.get("role") == "assistant"]
    texts = (_content(content) if isinstance(content, list) else content for content in reversed(contents))
    return next((text for text in texts if isinstance(text, str) and text), "")
