"""Messages of all dialects as chat messages: an object with a role, a content, and tool calls where there are some."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradebook.rubrics.model.canonical import canonical_json
from gradebook.rubrics.prompts.media import media_source
from gradebook.tasks.datasets.traces.fields import decoded, first_of, object_of, objects_of, text_of

Message = dict[str, Any]
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "developer": "system"}
_TEXTS = ("text", "input_text", "output_text")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")  # of the model alone: no answer to anybody
_MEDIA_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
}
_WRAPPINGS = ("source", "inline_data", "inlineData", "image_url", "input_audio")
_ADDRESSES = ("url", "uri", "image_url", "image", "audio")
_CONTENTS = ("data", "base64", "content")
_CALLS = ("tool_call", "tool_use", "function_call", "functionCall")
_RESULTS = ("tool_call_response", "tool_result", "function_call_output", "function_response", "functionResponse")
_KNOWN_ROLES = ("user", "assistant", "system", "tool", *_ROLES)
_PARTS = (*_CALLS, *_RESULTS, *_THOUGHTS)
_KEYED = ("function_call", "functionCall", "function_response", "functionResponse")  # Gemini names a part by its key
# Keys under which a request or a response has its messages or its text, and keys of objects around it.
_HELD = {"user": ("input", "prompts", "prompt"), "assistant": ("output",)}
_HOLDERS = {"user": ("request", "new_message", "input", "inputs"), "assistant": ("response", "output", "outputs")}
_DECLARED = ("input_schema", "parameters", "function_declarations", "functionDeclarations")  # of a tool's definition
_MESSAGE_KEYS = ("role", "content", "parts", "tool_calls", "kwargs")


def chat_messages(given: Any, role: str = "user") -> list[Message]:
    """Chat messages from a list of messages, one message, its text, or JSON of these; also from a model's request or
    response, as OpenAI, Anthropic, Gemini and LangChain write them. role: where none is said.
    """
    if given is None:
        return []
    value = decoded(given)
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    if isinstance(value, dict):
        opened = _opened(value, role)
        value = [value] if opened is None else opened
    if isinstance(value, list) and value and isinstance(value[0], list):  # LangChain batches its prompts
        value = value[0]
    entries = value if isinstance(value, list) else []
    messages = ({"content": entry} if isinstance(entry, str) else entry for entry in entries)
    found = (each for message in messages if isinstance(message, dict) for each in _of_message(message, role))
    return [message for message in found if len(message) > 1]


def answered_messages(given: Any) -> list[Message]:
    """Reply of a model as messages; an object that is none, such as a structured answer, is the answer's text."""
    value = decoded(given)
    messages = chat_messages(value, "assistant")
    if messages or not isinstance(value, list | dict) or not value or holds_messages(value, "assistant"):
        return messages
    return [{"role": "assistant", "content": given if isinstance(given, str) else canonical_json(value)}]


def messages_within(given: Any, role: str = "user") -> list[Message]:
    """Messages in what an agent was given or gave back; none in other values, such as the arguments of a function."""
    value = decoded(given)
    return chat_messages(value, role) if holds_messages(value, role) else []


def result_within(made: Any) -> Message | None:
    """Message of the role `tool` that a tool gave back, as those of LangChain do; None of other values."""
    given = _unwrapped(made) if isinstance(made, dict) else {}
    if "content" not in given or _role_of(made, given, "") != "tool":
        return None
    return next((each for each in _of_message(made, "tool") if each["role"] == "tool"), None)


def holds_messages(value: Any, role: str) -> bool:
    """Whether a value is a message, a list of them, or a request (role: user) or response (assistant) of a model."""
    if isinstance(value, list):
        return bool(value) and all(holds_messages(each, role) for each in value)
    if not isinstance(value, dict):
        return False
    return any(name in value for name in _MESSAGE_KEYS) or _opened(value, role) is not None


def _opened(given: Message, role: str) -> list[Any] | None:
    """Messages that a model's request or response holds; None of an object that is neither."""
    if isinstance(given.get("role"), str):
        return None
    for find in (_of_chat, _of_gemini, _of_langchain):
        if (found := find(given)) is not None:
            return found
    for held in map(given.get, _HELD.get(role, ())):  # of OpenAI's responses, and of plain functions
        if (isinstance(held, str) and held) or (isinstance(held, list) and held and all(map(_is_said, held))):
            return [*_instructions(given.get("instructions")), *([held] if isinstance(held, str) else held)]
    for held in map(given.get, _HOLDERS.get(role, ())):
        if isinstance(held, dict) and holds_messages(held, role):
            opened = _opened(held, role)
            return [held] if opened is None else opened
    return [] if any(name in given and not given[name] for name in _HELD.get(role, ())) else None


def _of_chat(given: Message) -> list[Any] | None:
    """Messages of a request of OpenAI's or Anthropic's, and the message of OpenAI's completion."""
    if isinstance(messages := given.get("messages"), list):
        inner = messages[0] if messages and isinstance(messages[0], list) else messages
        return [*_instructions(given.get("system")), *inner]
    choices = objects_of(given.get("choices"))
    return [choices[0].get("message") or {"content": choices[0].get("text")}] if choices else None


def _of_gemini(given: Message) -> list[Any] | None:
    """Contents of a request, or of the first candidate; Google's ADK has the content itself in its responses."""
    if (contents := given.get("contents")) is not None:
        names = ("system_instruction", "systemInstruction")
        instructions = first_of(object_of(given.get("config")), names) or first_of(given, names)
        parts = contents if isinstance(contents, list) else [contents]
        if all(isinstance(part, str) or (isinstance(part, dict) and "parts" not in part) for part in parts):
            parts = [{"parts": parts}]
        return [*_instructions(instructions), *parts]
    if candidates := objects_of(given.get("candidates")):
        return [candidates[0].get("content")]
    content = given.get("content")
    return [content] if isinstance(content, dict) and "parts" in content else None


def _of_langchain(given: Message) -> list[Any] | None:
    generations = given.get("generations")
    if not isinstance(generations, list):
        return None
    batch = generations[0] if generations and isinstance(generations[0], list) else generations
    return [entry.get("message") or entry for entry in objects_of(batch)]


def _is_said(entry: Any) -> bool:
    return isinstance(entry, str) or (isinstance(entry, dict) and ("role" in entry or "type" in entry))


def _instructions(given: Any) -> list[Message]:
    """Message of the system from a text, parts, or an object with parts."""
    content = object_of(given).get("parts", given)
    return [{"role": "system", "content": content}] if content else []


def _of_message(given: Message, role: str) -> Iterable[Message]:
    """Messages from one of any dialect: results of tools in it become messages of their own."""
    message = _unwrapped(given)
    kind = message.get("type")
    if "role" not in message and isinstance(kind, str) and (kind in _PARTS or kind.endswith("_call")):
        message = {"role": "tool" if kind in _RESULTS else "assistant", "content": [message]}  # OpenAI's responses
    made: Message = {"role": _role_of(given, message, role)}
    content, calls, results = _content_of(message, made["role"]), _calls(message), list[Message]()
    if isinstance(content, list):
        texts, called, results = _sorted(content)
        yield from results
        calls += called
        if made["role"] == "tool" and content and not (texts or results):
            made["role"] = "assistant"  # Koog's calls; of definitions of tools nothing is left
        content = _content(texts)
    if content not in (None, "", []):
        made["content"] = content
    if calls:
        made["tool_calls"] = calls
    if made["role"] == "tool" and not results:
        made = {"content": ""} | made | {"tool_call_id": message.get("tool_call_id", message.get("id"))}
        made |= _failure(message)
    if text_of(message.get("name")):
        made["name"] = message["name"]
    if len(made) > 1 and set(made) != {"role", "name"}:
        yield made


def _unwrapped(given: Message) -> Message:
    """Message with what is in the objects that LangChain and others put around it."""
    message = given
    for name in ("kwargs", "data", "message"):
        if isinstance(inner := message.get(name), dict):
            message = message | inner
    return message


def _role_of(given: Message, message: Message, role: str) -> str:
    """Role of a message; LangChain may say it in the name of the class alone, as `AIMessage`. role: the default."""
    path = given.get("id")
    names = (path[-1] if isinstance(path, list) and path else None, message.get("type"))
    kinds = (name.partition("Message")[0].lower() for name in names if isinstance(name, str))
    found = text_of(message.get("role")) or next((kind for kind in kinds if kind in _KNOWN_ROLES), role)
    return _ROLES.get(found, found)


def _content_of(message: Message, role: str) -> Any:
    content = first_of(message, ("parts", "content", "text"))
    if role == "assistant" or (role == "tool" and not (message.get("tool_call_id") or message.get("id"))):
        content = _functions_in(content, role)
    return [content] if isinstance(content, dict) and (role != "tool" or "type" in content) else content


def _calls(message: Message) -> list[Message]:
    """Calls of tools that are no parts of the content; older libraries have them in additional arguments."""
    for given in (message, object_of(message.get("additional_kwargs"))):
        if calls := objects_of(given.get("tool_calls")):
            return [_call(call) for call in calls]
        if single := object_of(given.get("function_call")):
            return [_call(single)]
    return []


def _functions_in(content: Any, role: str) -> Any:
    """Calls of functions that are a message's content, also as JSON, as of Koog; other contents as they are.

    Messages of the role `tool` may hold definitions of functions too.
    """
    value = decoded(content) if isinstance(content, str) and content.startswith(("[{", "{")) else content
    parts = value if isinstance(value, list) else [value]
    are_functions = parts and all(_kind_of_part(part)[0] == "function" for part in parts)
    return parts if are_functions and (role == "tool" or all(map(_has_arguments, parts))) else content


def _has_arguments(part: Message) -> bool:
    return "arguments" in (object_of(part.get("function")) or part)


def _sorted(parts: list[Any]) -> tuple[list[Any], list[Message], list[Message]]:
    """Texts and other parts of a message, its calls of tools, and results of such. Definitions of tools are left out:
    Langfuse's callback for LangChain adds those that a model may call to its messages, with the role `tool`.
    """
    texts, calls, results = list[Any](), list[Message](), list[Message]()
    for part in parts:
        kind, held = _kind_of_part(part)
        if kind in _CALLS:
            calls.append(_call(held))
        elif kind in _RESULTS:
            results.append(_result(held))
        elif kind == "function":
            calls += [_call(held)] if _has_arguments(held) else []
        elif kind.endswith("_call"):  # a tool that OpenAI runs itself, such as web_search_call
            calls.append(_call({"name": kind.removesuffix("_call"), "arguments": held.get("action")} | held))
        elif kind not in _THOUGHTS:
            texts.append(part)
    return texts, calls, results


def _kind_of_part(part: Any) -> tuple[str, Any]:
    """Kind of a part of a message, and what it holds."""
    if not isinstance(part, dict):
        return "text", part
    for name in _KEYED:
        if isinstance(part.get(name), dict):
            return name, part[name]
    if part.get("thought") is True:
        return "thinking", part
    default = "function" if any(name in part for name in _DECLARED) else "text"
    kind = part.get("type", default)
    return (kind if isinstance(kind, str) else "text"), part


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
    name = call.get("name")
    return {"id": given.get("call_id") or given.get("id"), "function": {"name": name, "arguments": arguments}}


def _result(part: Message) -> Message:
    ids = (part.get(name) for name in ("tool_use_id", "tool_call_id", "call_id", "id"))
    result = next((part[name] for name in ("response", "result", "content", "output") if name in part), "")
    if isinstance(result, list):
        result = _content(result)
    made = {"role": "tool", "content": result, "tool_call_id": next((each for each in ids if each), None)}
    made |= {"name": part["name"]} if text_of(part.get("name")) else {}
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
