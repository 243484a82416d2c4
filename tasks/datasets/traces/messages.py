"""Messages of all dialects as chat messages, objects with a role, content and tool calls; a conversation as a row."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gradebook.rubrics.model.json_values import canonical_json
from gradebook.rubrics.prompts.media import media_source
from gradebook.tasks.datasets.row_parser import find_prompt_positions, id_of_prompt, steps_of_messages
from gradebook.tasks.datasets.traces.fields import decoded, first_of, object_of, objects_of, text_of

Message = dict[str, Any]
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "developer": "system"}
_TEXTS = ("text", "input_text", "output_text")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking", "compaction")  # not part of the answer
_MEDIA_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
}
_WRAPPINGS = ("source", "inline_data", "inlineData", "image_url", "input_audio")
_ADDRESSES = ("url", "uri", "image_url", "image", "audio", "path")
_CONTENTS = ("data", "base64", "content")
_CALLS = (
    *("tool_call", "tool_use", "function_call", "functionCall"),
    *("server_tool_call", "server_tool_use", "mcp_tool_use"),  # that the provider runs itself
)
_RESULTS = ("tool_call_response", "tool_result", "function_call_output", "function_response", "functionResponse")
_RESULT_ENDS = ("_tool_result", "_call_response")  # of tools that the provider runs itself
_KNOWN_ROLES = ("user", "assistant", "system", "tool", *_ROLES)
_ARGUMENTS = ("arguments", "args", "input", "server_tool_call")
_OUTPUTS = ("response", "result", "content", "output", "server_tool_call_response")
_PARTS = (*_CALLS, *_RESULTS, *_THOUGHTS)
_KEYED = ("function_call", "functionCall", "function_response", "functionResponse")  # Gemini names a part by its key
# Keys under which a request or a response has its messages or its text, and keys of objects around it.
_MESSAGE_KEYS_OF_ROLE = {"user": ("input", "prompts", "prompt"), "assistant": ("output",)}
_WRAPPER_KEYS_OF_ROLE = {
    "user": ("request", "new_message", "input", "inputs"),
    "assistant": ("response", "output", "outputs"),
}
_DECLARED = ("input_schema", "parameters", "function_declarations", "functionDeclarations")  # of a tool's definition
_MESSAGE_KEYS = ("role", "content", "parts", "tool_calls", "kwargs")


def chat_messages(source: Any, role: str = "user") -> list[Message]:
    """Chat messages from a list of messages, one message, its text, or JSON of these.

    A model's request or response is also read, in the shapes of OpenAI, Anthropic, Gemini and LangChain. role: of
    messages without a role.
    """
    if source is None:
        return []
    value = decoded(source)
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    if isinstance(value, dict):
        opened = _inner_messages(value, role)
        value = [value] if opened is None else opened
    if isinstance(value, list) and value and isinstance(value[0], list):  # LangChain batches its prompts
        value = value[0]
    entries = value if isinstance(value, list) else []
    messages = ({"content": entry} if isinstance(entry, str) else entry for entry in entries)
    chat = (
        chat_message for message in messages if isinstance(message, dict) for chat_message in _of_message(message, role)
    )
    return [message for message in chat if len(message) > 1]


def answered_messages(source: Any) -> list[Message]:
    """Reply of a model as messages. Any other object, such as a structured answer, becomes the answer's text."""
    value = decoded(source)
    messages = chat_messages(value, "assistant")
    if messages or not isinstance(value, list | dict) or not value or holds_messages(value, "assistant"):
        return messages
    return [{"role": "assistant", "content": source if isinstance(source, str) else canonical_json(value)}]


def messages_within(source: Any, role: str = "user") -> list[Message]:
    """Messages in an agent's input or output; none in other values, such as the arguments of a function."""
    value = decoded(source)
    return chat_messages(value, role) if holds_messages(value, role) else []


def result_within(output: Any) -> Message | None:
    """Message of the role `tool` in a tool's output, as LangChain's tools return it; None for other values."""
    holder = _unwrapped(output) if isinstance(output, dict) else {}
    if "content" not in holder or _role_of(output, holder, "") != "tool":
        return None
    return next((message for message in _of_message(output, "tool") if message["role"] == "tool"), None)


def holds_messages(value: Any, role: str) -> bool:
    """Whether a value is a message, a list of them, or a request (role: user) or response (assistant) of a model."""
    if isinstance(value, list):
        return bool(value) and all(holds_messages(entry, role) for entry in value)
    if not isinstance(value, dict):
        return False
    return any(name in value for name in _MESSAGE_KEYS) or _inner_messages(value, role) is not None


def _inner_messages(value: Message, role: str) -> list[Any] | None:
    """Messages in a model's request or response; None for any other object."""
    if isinstance(value.get("role"), str):
        return None
    for find in (_of_chat, _of_gemini, _of_langchain):
        if (messages := find(value)) is not None:
            return messages
    for inner in map(value.get, _MESSAGE_KEYS_OF_ROLE.get(role, ())):  # of OpenAI's responses, and of plain functions
        if (isinstance(inner, str) and inner) or (
            isinstance(inner, list) and inner and all(map(_is_text_or_message, inner))
        ):
            return [*_instructions(value.get("instructions")), *([inner] if isinstance(inner, str) else inner)]
    for inner in map(value.get, _WRAPPER_KEYS_OF_ROLE.get(role, ())):
        if isinstance(inner, dict) and holds_messages(inner, role):
            opened = _inner_messages(inner, role)
            return [inner] if opened is None else opened
    return [] if any(name in value and not value[name] for name in _MESSAGE_KEYS_OF_ROLE.get(role, ())) else None


def _of_chat(value: Message) -> list[Any] | None:
    """Messages of a request to OpenAI or Anthropic, and the message of OpenAI's completion."""
    if isinstance(messages := value.get("messages"), list):
        inner = messages[0] if messages and isinstance(messages[0], list) else messages
        return [*_instructions(value.get("system")), *inner]
    choices = objects_of(value.get("choices"))
    return [choices[0].get("message") or {"content": choices[0].get("text")}] if choices else None


def _of_gemini(value: Message) -> list[Any] | None:
    """Contents of a request, or of the first candidate. Responses of Google's ADK have the content at the top."""
    if (contents := value.get("contents")) is not None:
        names = ("system_instruction", "systemInstruction")
        instructions = first_of(object_of(value.get("config")), names) or first_of(value, names)
        parts = contents if isinstance(contents, list) else [contents]
        if all(isinstance(part, str) or (isinstance(part, dict) and "parts" not in part) for part in parts):
            parts = [{"parts": parts}]
        return [*_instructions(instructions), *parts]
    if candidates := objects_of(value.get("candidates")):
        return [candidates[0].get("content")]
    content = value.get("content")
    return [content] if isinstance(content, dict) and "parts" in content else None


def _of_langchain(value: Message) -> list[Any] | None:
    generations = value.get("generations")
    if not isinstance(generations, list):
        return None
    batch = generations[0] if generations and isinstance(generations[0], list) else generations
    return [entry.get("message") or entry for entry in objects_of(batch)]


def _is_text_or_message(entry: Any) -> bool:
    return isinstance(entry, str) or (isinstance(entry, dict) and ("role" in entry or "type" in entry))


def _instructions(value: Any) -> list[Message]:
    """System message from a text, parts, or an object with parts."""
    content = object_of(value).get("parts", value)
    return [{"role": "system", "content": content}] if content else []


def _of_message(wrapped: Message, role: str) -> list[Message]:
    """Chat messages from one message of any dialect: results of tools in it become separate messages.

    They stand before the texts of a user, and after the calls of an assistant.
    """
    message = _unwrapped(wrapped)
    kind = message.get("type")
    if "role" not in message and isinstance(kind, str) and (kind in _PARTS or kind.endswith(("_call", *_RESULT_ENDS))):
        message = {"role": "tool" if _is_result(kind) else "assistant", "content": [message]}  # OpenAI's responses
    chat_message: Message = {"role": _role_of(wrapped, message, role)}
    content, calls, results = _content_of(message, chat_message["role"]), _calls(message), list[Message]()
    if isinstance(content, list):
        texts, called, results = _split_parts(content)
        calls += called
        if chat_message["role"] == "tool" and content and not (texts or results):
            chat_message["role"] = "assistant"  # Koog's calls; of definitions of tools nothing is left
        content = _content(texts)
    if content not in (None, "", []):
        chat_message["content"] = content
    if calls:
        chat_message["tool_calls"] = calls
    if chat_message["role"] == "tool" and not results:
        chat_message = {"content": ""} | chat_message | {"tool_call_id": message.get("tool_call_id", message.get("id"))}
        chat_message |= _failure(message)
    if text_of(message.get("name")):
        chat_message["name"] = message["name"]
    is_empty = len(chat_message) == 1 or set(chat_message) == {"role", "name"}
    chat = [] if is_empty else [chat_message]
    return [*chat, *results] if chat_message["role"] == "assistant" else [*results, *chat]


def _unwrapped(wrapped: Message) -> Message:
    """Message merged with the objects that LangChain and others nest in it."""
    message = wrapped
    for name in ("kwargs", "data", "message"):
        if isinstance(inner := message.get(name), dict):
            message = message | inner
    return message


def _role_of(wrapped: Message, message: Message, role: str) -> str:
    """Role of a message. LangChain may give only the name of a class, such as `AIMessage`. role: the default."""
    path = wrapped.get("id")
    names = (path[-1] if isinstance(path, list) and path else None, message.get("type"))
    kinds = (name.partition("Message")[0].lower() for name in names if isinstance(name, str))
    name = text_of(message.get("role")) or next((kind for kind in kinds if kind in _KNOWN_ROLES), role)
    return _ROLES.get(name, name)


def _content_of(message: Message, role: str) -> Any:
    content = first_of(message, ("parts", "content", "text"))
    if role == "assistant" or (role == "tool" and not (message.get("tool_call_id") or message.get("id"))):
        content = _functions_in(content, role)
    return [content] if isinstance(content, dict) and (role != "tool" or "type" in content) else content


def _calls(message: Message) -> list[Message]:
    """Tool calls outside the content. Older libraries have them in additional arguments."""
    for holder in (message, object_of(message.get("additional_kwargs"))):
        if calls := objects_of(holder.get("tool_calls")):
            return [_call(call) for call in calls]
        if single := object_of(holder.get("function_call")):
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


def _split_parts(parts: list[Any]) -> tuple[list[Any], list[Message], list[Message]]:
    """Texts and other parts of a message, its tool calls, and results of tools.

    Definitions of tools are left out: Langfuse's callback for LangChain adds them to the messages, with the role
    `tool`.
    """
    texts, calls, results = list[Any](), list[Message](), list[Message]()
    for part in parts:
        kind, content = _kind_of_part(part)
        if kind in _CALLS:
            calls.append(_call(content))
        elif _is_result(kind):
            results.append(_result(content))
        elif kind == "function":
            calls += [_call(content)] if _has_arguments(content) else []
        elif kind.endswith("_call"):  # a tool that OpenAI runs itself, such as web_search_call
            calls.append(_call({"name": kind.removesuffix("_call"), "arguments": content.get("action")} | content))
        elif kind not in _THOUGHTS:
            texts.append(part)
    return texts, calls, results


def _is_result(kind: str) -> bool:
    return kind in _RESULTS or kind.endswith(_RESULT_ENDS)


def _kind_of_part(part: Any) -> tuple[str, Any]:
    """Kind and content of a part of a message."""
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
    """Joined text if all parts are texts; otherwise texts, media and other parts as the parts of a chat message."""
    texts = [part if isinstance(part, str) else _text(part) for part in parts]
    if None not in texts:
        return "\n".join(text for text in texts if text)
    return [
        (_medium(part) or part) if text is None else {"type": "text", "text": text}
        for text, part in zip(texts, parts, strict=True)
    ]


def _medium(value: Any) -> Message | None:
    """Image or sound of any dialect as a chat message's part; None for other parts."""
    part = object_of(value)
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
    fields = object_of(part)
    if fields.get("type", "text") not in _TEXTS:
        return None
    text = fields.get("text", fields.get("content"))
    return text if isinstance(text, str) else None


def _call(entry: Message) -> Message:
    function = entry.get("function")
    call = function if isinstance(function, dict) else entry | ({"name": function} if function else {})
    arguments = next((call[name] for name in _ARGUMENTS if name in call), None)
    name = call.get("name")
    return {"id": entry.get("call_id") or entry.get("id"), "function": {"name": name, "arguments": arguments}}


def _result(part: Message) -> Message:
    ids = (part.get(name) for name in ("tool_use_id", "tool_call_id", "call_id", "id"))
    result = next((part[name] for name in _OUTPUTS if name in part), "")
    if isinstance(result, list):
        result = _content(result)
    message = {"role": "tool", "content": result, "tool_call_id": next((call_id for call_id in ids if call_id), None)}
    message |= {"name": part["name"]} if text_of(part.get("name")) else {}
    return message | _failure(part)


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


def joined_text(messages: Iterable[Mapping[str, Any]]) -> str:
    """Text of the last message of an assistant that has one; empty without."""
    contents = [message.get("content") for message in messages if message.get("role") == "assistant"]
    texts = (_content(content) if isinstance(content, list) else content for content in reversed(contents))
    return next((text for text in texts if isinstance(text, str) and text), "")


class Turn(NamedTuple):
    """A message with what was recorded of it: the fields of its step, such as started_at and tokens."""

    message: Message
    about: Mapping[str, Any] = {}


def row_of_conversation(turns: Sequence[Turn], model: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Row of a conversation: what the assistant was asked first is the prompt, all the rest are steps.

    The answer is the last text of the assistant itself, not of an agent that it called.
    """
    prompt_positions = set(find_prompt_positions([{**turn.message, **turn.about} for turn in turns]))
    prompt = [turn.message for index, turn in enumerate(turns) if index in prompt_positions]
    done = [turn for index, turn in enumerate(turns) if index not in prompt_positions]
    return {
        "case_id": id_of_prompt(prompt),
        "model": model,
        "prompt": prompt or None,
        "output": joined_text(turn.message for turn in done if "agent" not in turn.about),
        "steps": steps_of_messages([turn.message for turn in done], [turn.about for turn in done]),
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }
