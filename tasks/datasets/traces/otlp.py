"""OpenTelemetry's spans as a collector writes them to JSON, in the four dialects of generative models.

No attribute of the semantic conventions for generative models is stable, so each fact is looked up by the names that
it has or had: those of OpenTelemetry, of OpenLLMetry, of OpenInference, and of Langfuse and MLflow where these export.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gradebook.tasks.datasets.traces.fields import (
    amount_of,
    count_of,
    decoded,
    error_of,
    first_of,
    id_of,
    nanoseconds_of,
    object_of,
    objects_of,
    short_of,
    sum_of,
    text_of,
    timing,
)
from gradebook.tasks.datasets.traces.grouping import Part
from gradebook.tasks.datasets.traces.messages import (
    Message,
    answered_messages,
    chat_messages,
    messages_within,
    result_within,
)
from gradebook.tasks.datasets.traces.spans import KINDS, OWN_COLUMNS, Span
from gradebook.tasks.datasets.traces.wrappings import holds_spans, spans_of

_KIND_NAMES = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "traceloop.span.kind",
    "llm.request.type",
    "langfuse.observation.type",
    "mlflow.spanType",
)
_NAMES: Mapping[str, tuple[str, ...]] = {
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "langfuse.observation.model.name"),
    "tool": ("gen_ai.tool.name", "tool.name", "tool_call.function.name", "traceloop.entity.name"),
    "agent": ("gen_ai.agent.name", "agent.name", "graph.node.id", "traceloop.entity.name"),
    "retrieval": ("gen_ai.data_source.id", "traceloop.entity.name"),
}
_AGENT = ("gen_ai.agent.name", "agent.name")
INPUT = (
    "gen_ai.tool.call.arguments",
    "gcp.vertex.agent.tool_call_args",
    "gcp.vertex.agent.llm_request",
    "input.value",
    "tool.parameters",
    "tool_call.function.arguments",
    "tool_arguments",
    "traceloop.entity.input",
    "langfuse.observation.input",
    "mlflow.spanInputs",
)
OUTPUT = (
    "gen_ai.tool.call.result",
    "gcp.vertex.agent.tool_response",
    "gcp.vertex.agent.llm_response",
    "output.value",
    "tool_response",
    "final_result",
    "traceloop.entity.output",
    "langfuse.observation.output",
    "mlflow.spanOutputs",
)
_ALL_TOKENS = ("llm.token_count.total", "llm.usage.total_tokens", "gen_ai.usage.total_tokens")
_TOKENS_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_TOKENS_OUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_COST = (
    "gen_ai.usage.cost",
    "llm.cost.total",
    "operation.cost",
    "gradebook.cost_usd",
    "langfuse.observation.cost_details.total",
)
_SESSION = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
)
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
_SPREAD = ("gen_ai.prompt.", "llm.input_messages.", "gen_ai.completion.", "llm.output_messages.")
_MESSAGES = ("gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages")
_MOST_SETS = 1_000  # of names of attributes; spread messages make one for each length of a conversation
_DETAILS = "gen_ai.client.inference.operation.details"
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # of 64 bits
_MOST_KEY, _MOST_LEVELS = 1_000, 20  # of an attribute that spreads messages
_OWN = {f"gradebook.{column}": column for column in OWN_COLUMNS}


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    return holds_spans(first)


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part | str]:
    """Spans of one object, and the reason for each that is none."""
    found = list(_spans(document))
    for span in found:
        if isinstance(span, str):
            yield span
        else:
            yield Part(str(span.get("traceId") or ""), line, span, size // len(found))


def _spans(document: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Spans, each with what its resource says of the trace; the rest of a resource is not copied to every span."""
    about, kept = None, dict[str, Any]()
    for span in spans_of(document):
        if isinstance(span, str):
            yield span
            continue
        if span["resource"] is not about:  # spans of a resource share it
            about = span["resource"]
            fields = attributes_of(about)
            kept = {name: fields[name] for name in ("service.name", *_OWN) if short_of(str(fields.get(name, "")))}
        yield span | {"resource": kept}


class _Known(NamedTuple):
    """Names of a span's attributes by what they say; an empty one is none's.

    They depend on the names alone, and most spans of a kind have the same ones, so they are looked up once.
    """

    names: Mapping[str, str]  # of a step, by its kind
    agent: str
    input: str
    output: str
    tokens: tuple[str, ...]  # that are added up
    cost: str
    session: str
    own: tuple[tuple[str, str], ...]  # with the column that each sets
    has_messages: bool
    is_spread: bool


@lru_cache(_MOST_SETS)
def _known(given: tuple[str, ...]) -> _Known:
    """Name under which a span has each fact: the first of those it may go by."""

    def first(names: Iterable[str]) -> str:
        return next((name for name in names if name in given), "")

    total = first(_ALL_TOKENS)
    return _Known(
        {kind: first(names) for kind, names in _NAMES.items()},
        first(_AGENT),
        first(INPUT),
        first(OUTPUT),
        (total,) if total else tuple(filter(None, (first(_TOKENS_IN), first(_TOKENS_OUT)))),
        first(_COST),
        first(_SESSION),
        tuple((name, column) for name, column in _OWN.items() if name in given),
        first(_MESSAGES) != "",
        any(name.startswith(_SPREAD) for name in given),
    )


def read_span(content: Mapping[str, Any]) -> Span:
    """Read a span. Raises `MisfitError` where it can't be."""
    id_of("traceId", content.get("traceId"))
    fields = attributes_of(content.get("attributes"))
    events = [
        (text_of(event.get("name")) or "", attributes_of(event.get("attributes")))
        for event in objects_of(content.get("events"))
    ]
    known = _known(tuple(fields))
    get = fields.get
    resource = object_of(content.get("resource"))
    kind = kind_of_fields(fields)
    started = nanoseconds_of("startTimeUnixNano", content.get("startTimeUnixNano"))
    given, made = decoded(get(known.input)), decoded(get(known.output))
    asked, answered = _talk(fields, known, events)
    if kind == "tool" and (result := result_within(made)):
        made = result["content"]
    if kind == "model":
        asked, answered = asked or chat_messages(given), answered or answered_messages(get(known.output))
    elif kind != "tool":
        asked, answered = asked or messages_within(given), answered or messages_within(made, "assistant")
    has_talk = kind == "model" and bool(asked or answered)
    metadata = {"service": resource.get("service.name"), "session_id": get(known.session)}
    return Span(
        id_of("spanId", content.get("spanId")),
        text_of(content.get("parentSpanId")),
        started,
        {
            "kind": kind,
            "name": text_of(get(known.names.get(kind, ""))) or text_of(content.get("name")),
            "agent": text_of(get(known.agent)),
            # What a model was asked is in the prompt and in the steps before: each call repeats it all.
            "input": None if has_talk else given or _listed(asked),
            "output": _said(answered) if has_talk else made or _listed(answered),
            "error": _error(content, fields, events),
            "tokens": sum_of(*[count_of("tokens", fields[name]) for name in known.tokens]),
            "cost_usd": amount_of("cost", get(known.cost)),
            **timing(started, nanoseconds_of("endTimeUnixNano", content.get("endTimeUnixNano"))),
        },
        asked,
        answered,
        text_of(get(known.names["model"])),
        _documents(fields) if kind == "retrieval" else (),
        {column: resource[name] for name, column in _OWN.items() if name in resource}
        | {column: fields[name] for name, column in known.own},
        {name: value for name, value in metadata.items() if isinstance(value, str)},
    )


def attributes_of(listed: Any) -> dict[str, Any]:
    """Attributes by their keys, without those that have no key or no value; those of other wrappings are an object."""
    if isinstance(listed, dict):
        return {key: value for key, value in listed.items() if key and value is not None}
    fields: dict[str, Any] = {}
    for entry in objects_of(listed):
        key, value = entry.get("key"), entry.get("value")
        if isinstance(value, dict) and "stringValue" in value and len(value) == 1:
            value = value["stringValue"]
        else:
            value = _value(value)
        if isinstance(key, str) and key and value is not None:
            fields[key] = value
    return fields


def _value(given: Any) -> Any:
    """Value that OTLP's JSON wraps by its type."""
    if not isinstance(given, dict) or not given:
        return None
    form, value = next(iter(given.items()))
    if form == "stringValue":
        return value
    if form == "arrayValue":
        values = object_of(value).get("values")
        return [_value(each) for each in values] if isinstance(values, list) else []
    if form == "kvlistValue":
        return attributes_of(object_of(value).get("values"))
    if form == "intValue" and isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    return value


def kind_of_fields(fields: Mapping[str, Any]) -> str:
    """Kind of a step by the attributes of its span."""
    for name in _KIND_NAMES:
        found = decoded(fields[name]) if name in fields else None
        if isinstance(found, str) and (kind := KINDS.get(found.lower())):
            return kind
    if "gen_ai.prompt.0.content" in fields or fields.get("gcp.vertex.agent.llm_request") not in (None, "", "{}", {}):
        return "model"
    return "tool" if "gen_ai.tool.name" in fields else "agent" if "gen_ai.agent.name" in fields else "system"


def tool_of_fields(fields: Mapping[str, Any]) -> str | None:
    """Name of a tool by the attributes of its span."""
    return text_of(first_of(fields, _NAMES["tool"]))


def _talk(
    fields: Mapping[str, Any], known: _Known, events: Sequence[tuple[str, Mapping[str, Any]]]
) -> tuple[list[Message], list[Message]]:
    """Messages that a span was asked and that it answered, from the first dialect that has some."""
    given_in = [fields] if known.has_messages else []
    for given in (*given_in, *(attributes for name, attributes in events if name == _DETAILS)):
        instructions, asked_of, answer = map(given.get, _MESSAGES)
        asked = [message | {"role": "system"} for message in chat_messages(instructions, "system")]
        asked += chat_messages(asked_of)
        answered = chat_messages(answer, "assistant")
        if asked or answered:
            return asked, answered
    asked, answered = [], []
    if known.is_spread:
        asked = chat_messages(_numbered(fields, "gen_ai.prompt."))
        asked = asked or chat_messages(_numbered(fields, "llm.input_messages."))
        spread = _numbered(fields, "gen_ai.completion.") or _numbered(fields, "llm.output_messages.")
        answered = chat_messages(spread, "assistant")
    for name, attributes in events:
        if role := _EVENT_ROLES.get(name):
            body = decoded(first_of(attributes, ("gen_ai.event.content", "event_body", "content")))
            message = {**attributes, **body} if isinstance(body, dict) else dict(attributes)
            message["tool_calls"] = decoded(message.get("tool_calls"))
            (answered if name == "gen_ai.choice" else asked).extend(chat_messages({"role": role} | message, role))
    return asked, answered


def _numbered(fields: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Messages that are spread over attributes such as `PREFIX0.role` and `PREFIX0.tool_calls.0.name`."""
    return [_plain(message) for message in _in_turn(_tree_of(fields, prefix))]


def _tree_of(fields: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Attributes with this prefix, nested by the dots in their names."""
    tree: dict[str, Any] = {}
    for name, value in fields.items():
        if name.startswith(prefix) and len(name) <= _MOST_KEY and name.count(".") <= _MOST_LEVELS:
            *path, last = name.removeprefix(prefix).split(".")
            place = tree
            for key in path:
                inner = place.setdefault(key, {})
                place = inner if isinstance(inner, dict) else {}
            place.setdefault(last, value)
    return tree


def _in_turn(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    numbered = sorted(
        (int(key), value)
        for key, value in tree.items()
        if key.isascii() and key.isdecimal() and len(key) < 9 and isinstance(value, dict)
    )
    return [value for _, value in numbered]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Message without the levels that OpenInference puts around each part."""
    given = object_of(message.get("message")) or message
    made: dict[str, Any] = {name: given[name] for name in ("role", "content", "name", "tool_call_id") if name in given}
    if isinstance(made.get("content"), str):
        made["content"] = decoded(made["content"]) if made["content"].startswith('[{"type"') else made["content"]
    if contents := _in_turn(object_of(given.get("contents"))):
        made["content"] = [object_of(each.get("message_content")) for each in contents]
    calls = _in_turn(object_of(given.get("tool_calls")))
    if calls:
        made["tool_calls"] = [object_of(call.get("tool_call")) or call for call in calls]
    return made


def _said(answered: Iterable[Message]) -> str | None:
    texts = [message["content"] for message in answered if isinstance(message.get("content"), str)]
    return "\n".join(texts) or None


def _listed(messages: list[Message]) -> Any:
    if len(messages) == 1 and set(messages[0]) == {"role", "content"}:
        return messages[0]["content"]
    return messages or None


def _error(
    content: Mapping[str, Any], fields: Mapping[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> str | None:
    status = object_of(content.get("status"))
    if status.get("code") not in (2, "STATUS_CODE_ERROR") and "error.type" not in fields:
        return None
    exceptions = [attributes.get("exception.message") for _, attributes in events]
    message = fields.get("exception.message")
    return error_of(status.get("message"), message, *exceptions, fields.get("error.message"), fields.get("error.type"))


def _documents(fields: Mapping[str, Any]) -> list[str]:
    """Texts of what was retrieved."""
    listed = objects_of(decoded(fields.get("gen_ai.retrieval.documents")))
    found = listed or [object_of(each.get("document")) for each in _in_turn(_tree_of(fields, "retrieval.documents."))]
    texts = (first_of(each, ("content", "text", "page_content")) for each in found)
    return [text for text in texts if isinstance(text, str)]
