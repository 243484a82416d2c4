"""OpenTelemetry's spans as a collector writes them to JSON, in the four dialects of generative models.

No attribute of the semantic conventions for generative models is stable, so each fact is looked up by all its present
and former names: those of OpenTelemetry, OpenLLMetry and OpenInference, and of exports by Langfuse and MLflow.
Spans as Tempo, Jaeger, Phoenix and the console exporter wrap them are unwrapped first.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gradebook.tasks.datasets.traces.documents import Part
from gradebook.tasks.datasets.traces.fields import (
    MisfitError,
    amount_of,
    count_of,
    decoded,
    entries_of,
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
from gradebook.tasks.datasets.traces.messages import (
    Message,
    answered_messages,
    chat_messages,
    messages_within,
    result_within,
)
from gradebook.tasks.datasets.traces.spans import KINDS, OWN_COLUMNS, Span

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
_EVENT_NAMES = ("event.name", "otel.event.name")  # of log records
_MERGED_TOOLS = "(merged tools)"  # Google's ADK repeats the results of parallel calls in a span of this name
_SPREAD_PREFIXES = ("gen_ai.prompt.", "llm.input_messages.", "gen_ai.completion.", "llm.output_messages.")
_MESSAGES = ("gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages")
_MOST_SETS = 1_000  # of names of attributes; spread messages make one for each length of a conversation
_DETAILS = "gen_ai.client.inference.operation.details"
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # of 64 bits
_MOST_KEY, _MOST_LEVELS = 1_000, 20  # of an attribute that spreads messages
_OWN_COLUMNS = {f"gradebook.{column}": column for column in OWN_COLUMNS}


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    return holds_spans(first) or _has_logs(first)


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part | str]:
    """Spans and log records of one object, and the reason for each that can't be read."""
    logs = list(_log_records(document))
    spans = [] if _has_logs(document) and "resourceSpans" not in document else list(_spans(document))
    for span in (*spans, *logs):
        if isinstance(span, str):
            yield span
        else:
            yield Part(str(span.get("traceId") or ""), line, span, size // (len(spans) + len(logs)))


def _has_logs(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("resourceLogs"), list)


def _log_records(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Log records with messages of a model, each with its event under `log`; other records are left out."""
    scopes = [scope for each in objects_of(document.get("resourceLogs")) for scope in objects_of(each.get("scopeLogs"))]
    for record in (record for scope in scopes for record in objects_of(scope.get("logRecords"))):
        fields, body = attributes_of(record.get("attributes")), object_of(_value(record.get("body")))
        name = text_of(record.get("eventName")) or first_of(fields, _EVENT_NAMES)
        if name == _DETAILS or name in _EVENT_ROLES:
            event = {"name": name, "attributes": {**fields, **body, **object_of(body.get("message"))}}
            yield {"traceId": record.get("traceId"), "spanId": record.get("spanId"), "log": event}


def with_logs(trace_parts: Sequence[Part]) -> list[Part]:
    """Spans of a trace with their log records as events. A record without a span's id is that of the only model."""
    logs = [part for part in trace_parts if "log" in part.content]
    if not logs:
        return list(trace_parts)
    spans = [part for part in trace_parts if "log" not in part.content]
    models = [
        part.content for part in spans if kind_of_fields(attributes_of(part.content.get("attributes"))) == "model"
    ]
    by_id = {span_id: part.content for part in spans if (span_id := text_of(part.content.get("spanId")))}
    for part in logs:
        span = by_id.get(text_of(part.content["spanId"]) or "")
        if span is None and not part.content["spanId"] and len(models) == 1:
            span = models[0]
        if span is None:
            spans.append(part)
        else:
            span["events"] = [*objects_of(span.get("events")), part.content["log"]]
    return spans


def _spans(document: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Spans, each with the attributes of its resource that describe the trace; no others are copied to each span."""
    about, attributes = None, dict[str, Any]()
    for span in spans_of(document):
        if isinstance(span, str):
            yield span
            continue
        if span["resource"] is not about:  # spans of a resource share it
            about = span["resource"]
            fields = attributes_of(about)
            attributes = {
                name: fields[name] for name in ("service.name", *_OWN_COLUMNS) if short_of(str(fields.get(name, "")))
            }
        yield span | {"resource": attributes}


class _AttributeNames(NamedTuple):
    """Name of the span's attribute for each fact; empty if there is none.

    Most spans of a kind have the same names of attributes, so the lookup is cached.
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
def _attribute_names(names: tuple[str, ...]) -> _AttributeNames:
    """Name of the attribute for each fact: the first possible name that the span has."""

    def first(candidates: Iterable[str]) -> str:
        return next((name for name in candidates if name in names), "")

    total = first(_ALL_TOKENS)
    return _AttributeNames(
        {kind: first(names) for kind, names in _NAMES.items()},
        first(_AGENT),
        first(INPUT),
        first(OUTPUT),
        (total,) if total else tuple(filter(None, (first(_TOKENS_IN), first(_TOKENS_OUT)))),
        first(_COST),
        first(_SESSION),
        tuple((name, column) for name, column in _OWN_COLUMNS.items() if name in names),
        first(_MESSAGES) != "",
        any(name.startswith(_SPREAD_PREFIXES) for name in names),
    )


def read_span(content: Mapping[str, Any]) -> Span:
    """Read a span. Raises `MisfitError` where it can't be."""
    id_of("traceId", content.get("traceId"))
    if "log" in content:
        if content["spanId"]:
            id_of("spanId", content["spanId"])
        raise MisfitError("found a log record with messages, and not the span that it belongs to, expected both")
    fields = attributes_of(content.get("attributes"))
    events = [
        (text_of(event.get("name")) or "", attributes_of(event.get("attributes")))
        for event in objects_of(content.get("events"))
    ]
    keys = _attribute_names(tuple(fields))
    get = fields.get
    resource = object_of(content.get("resource"))
    kind = kind_of_fields(fields)
    started = nanoseconds_of("startTimeUnixNano", content.get("startTimeUnixNano"))
    input_value, output_value = decoded(get(keys.input)), decoded(get(keys.output))
    prompt, answered = _conversation(fields, keys, events)
    if kind == "tool" and (result := result_within(output_value)):
        output_value = result["content"]
    if kind == "model":
        prompt, answered = prompt or chat_messages(input_value), answered or answered_messages(get(keys.output))
    elif kind != "tool":
        prompt, answered = (
            prompt or messages_within(input_value),
            answered or messages_within(output_value, "assistant"),
        )
    has_talk = kind == "model" and bool(prompt or answered)
    metadata = {"service": resource.get("service.name"), "session_id": get(keys.session)}
    return Span(
        id_of("spanId", content.get("spanId")),
        text_of(content.get("parentSpanId")),
        started,
        {
            "kind": kind,
            "name": text_of(get(keys.names.get(kind, ""))) or text_of(content.get("name")),
            "agent": text_of(get(keys.agent)),
            # The input of a model is in the prompt and in the steps before: each call repeats all of it.
            "input": None if has_talk else input_value or _text_or_messages(prompt),
            "output": _joined_texts(answered) if has_talk else output_value or _text_or_messages(answered),
            "error": _error(content, fields, events),
            "tokens": sum_of(*[count_of("tokens", fields[name]) for name in keys.tokens]),
            "cost_usd": amount_of("cost", get(keys.cost)),
            **timing(started, nanoseconds_of("endTimeUnixNano", content.get("endTimeUnixNano"))),
        },
        prompt,
        answered,
        text_of(get(keys.names["model"])),
        _documents(fields) if kind == "retrieval" else (),
        {column: resource[name] for name, column in _OWN_COLUMNS.items() if name in resource}
        | {column: fields[name] for name, column in keys.own},
        {name: value for name, value in metadata.items() if isinstance(value, str)},
    )


def attributes_of(listed: Any) -> dict[str, Any]:
    """Attributes by their keys, without those that have no key or no value. listed: key/value pairs, or an object."""
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


def _value(wrapped: Any) -> Any:
    """Plain value of one that OTLP's JSON wraps by its type."""
    if not isinstance(wrapped, dict) or not wrapped:
        return None
    form, value = next(iter(wrapped.items()))
    if form == "stringValue":
        return value
    if form == "arrayValue":
        values = object_of(value).get("values")
        return [_value(entry) for entry in values] if isinstance(values, list) else []
    if form == "kvlistValue":
        return attributes_of(object_of(value).get("values"))
    if form == "intValue" and isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    return value


def kind_of_fields(fields: Mapping[str, Any]) -> str:
    """Kind of a step by the attributes of its span."""
    if fields.get("gen_ai.tool.name") == _MERGED_TOOLS:
        return "system"
    for name in _KIND_NAMES:
        tool = decoded(fields[name]) if name in fields else None
        if isinstance(tool, str) and (kind := KINDS.get(tool.lower())):
            return kind
    if "gen_ai.prompt.0.content" in fields or fields.get("gcp.vertex.agent.llm_request") not in (None, "", "{}", {}):
        return "model"
    return "tool" if "gen_ai.tool.name" in fields else "agent" if "gen_ai.agent.name" in fields else "system"


def tool_of_fields(fields: Mapping[str, Any]) -> str | None:
    """Name of a tool by the attributes of its span."""
    return text_of(first_of(fields, _NAMES["tool"]))


def _conversation(
    fields: Mapping[str, Any], keys: _AttributeNames, events: Sequence[tuple[str, Mapping[str, Any]]]
) -> tuple[list[Message], list[Message]]:
    """Input and output messages of a span, from the first dialect that has some."""
    given_in = [fields] if keys.has_messages else []
    for source in (*given_in, *(attributes for name, attributes in events if name == _DETAILS)):
        instructions, asked_of, answer = map(source.get, _MESSAGES)
        prompt = [message | {"role": "system"} for message in chat_messages(instructions, "system")]
        prompt += chat_messages(asked_of)
        answered = chat_messages(answer, "assistant")
        if prompt or answered:
            return prompt, answered
    prompt, answered = [], []
    if keys.is_spread:
        prompt = chat_messages(_numbered(fields, "gen_ai.prompt."))
        prompt = prompt or chat_messages(_numbered(fields, "llm.input_messages."))
        spread = _numbered(fields, "gen_ai.completion.") or _numbered(fields, "llm.output_messages.")
        answered = chat_messages(spread, "assistant")
    for name, attributes in events:
        if role := _EVENT_ROLES.get(name):
            body = decoded(first_of(attributes, ("gen_ai.event.content", "event_body", "content")))
            message = {**attributes, **body} if isinstance(body, dict) else dict(attributes)
            message["tool_calls"] = decoded(message.get("tool_calls"))
            (answered if name == "gen_ai.choice" else prompt).extend(chat_messages({"role": role} | message, role))
    return prompt, answered


def _numbered(fields: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Messages that are spread over attributes such as `PREFIX0.role` and `PREFIX0.tool_calls.0.name`."""
    return [_plain(message) for message in _by_number(_tree_of(fields, prefix))]


def _tree_of(fields: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Attributes with this prefix, nested by the dots in their names."""
    tree: dict[str, Any] = {}
    for name, value in fields.items():
        if name.startswith(prefix) and len(name) <= _MOST_KEY and name.count(".") <= _MOST_LEVELS:
            *path, last = name.removeprefix(prefix).split(".")
            node = tree
            for key in path:
                inner = node.setdefault(key, {})
                node = inner if isinstance(inner, dict) else {}
            node.setdefault(last, value)
    return tree


def _by_number(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    numbered = sorted(
        (int(key), value)
        for key, value in tree.items()
        if key.isascii() and key.isdecimal() and len(key) < 9 and isinstance(value, dict)
    )
    return [value for _, value in numbered]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Message without the levels that OpenInference puts around each part."""
    fields = object_of(message.get("message")) or message
    chat_message: dict[str, Any] = {
        name: fields[name] for name in ("role", "content", "name", "tool_call_id") if name in fields
    }
    if isinstance(chat_message.get("content"), str):
        chat_message["content"] = (
            decoded(chat_message["content"])
            if chat_message["content"].startswith('[{"type"')
            else chat_message["content"]
        )
    if contents := _by_number(object_of(fields.get("contents"))):
        chat_message["content"] = [object_of(content.get("message_content")) for content in contents]
    calls = _by_number(object_of(fields.get("tool_calls")))
    if calls:
        chat_message["tool_calls"] = [object_of(call.get("tool_call")) or call for call in calls]
    return chat_message


def _joined_texts(answered: Iterable[Message]) -> str | None:
    texts = [message["content"] for message in answered if isinstance(message.get("content"), str)]
    return "\n".join(texts) or None


def _text_or_messages(messages: list[Message]) -> Any:
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
    documents = listed or [
        object_of(entry.get("document")) for entry in _by_number(_tree_of(fields, "retrieval.documents."))
    ]
    texts = (first_of(document, ("content", "text", "page_content")) for document in documents)
    return [text for text in texts if isinstance(text, str)]


_MOST_NESTED = 20  # of attributes that are nested
_VALUES = ("value", "parameters", "arguments", "metadata", "schema")  # last parts of names whose values stay objects
_TRACE_ID, _SPAN_ID = ("trace_id", "traceId"), ("span_id", "spanId")
_ERRORS = (True, "true", "ERROR")


def holds_spans(document: Mapping[str, Any]) -> bool:
    """Whether an object is one of OTLP's, or a wrapping of its spans."""
    batches = objects_of(document.get("batches"))[:1]
    if isinstance(document.get("resourceSpans"), list) or any("resource" in batch for batch in batches):
        return True
    inner = _inner(document)
    return (inner is not None and holds_spans(inner)) or any(
        map(_is_trace_or_span, [document, *_data_objects(document)[:1]])
    )


def spans_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Spans, each with its resource as `resource`, and the reason for each entry that is none."""
    resources = first_of(document, ("resourceSpans", "batches"))
    if resources is not None or not holds_spans(document):
        name = "batches" if "batches" in document else "resourceSpans"
        for resource in entries_of(name, resources):
            yield from [resource] if isinstance(resource, str) else _of_resource(resource)
    elif (inner := _inner(document)) is not None:
        yield from spans_of(inner)
    else:
        for entry in [document] if _is_trace_or_span(document) else entries_of("data", document.get("data")):
            if isinstance(entry, str):
                yield entry
            else:
                yield from _of_jaeger(entry) if "spans" in entry else [_alone(entry)]


def _inner(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Object of OTLP in the answers of the second version of Tempo's API and of the third of Jaeger's."""
    holders = (object_of(document.get(name)) for name in ("trace", "result"))
    return next((inner for inner in holders if "resourceSpans" in inner or "batches" in inner), None)


def _data_objects(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return objects_of(document.get("data"))


def _is_trace_or_span(entry: Mapping[str, Any]) -> bool:
    """Whether an object is a trace of Jaeger, or one span: of Phoenix, of the console exporter, or alone as in OTLP."""
    ids = [first_of(object_of(entry.get("context")) or entry, names) for names in (_TRACE_ID, _SPAN_ID)]
    is_jaeger = isinstance(entry.get("spans"), list) and "processes" in entry
    is_span = None not in ids and isinstance(entry.get("attributes"), dict | list) and "name" in entry
    return is_jaeger or is_span


def _of_resource(resource: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    about = object_of(resource.get("resource")).get("attributes")
    name = "scopeSpans" if "scopeSpans" in resource else "instrumentationLibrarySpans"
    for scope in entries_of("scopeSpans", resource.get(name)):
        if isinstance(scope, str):
            yield scope
            continue
        for span in entries_of("spans", scope.get("spans")):
            yield span if isinstance(span, str) else span | {"resource": about}


def _of_jaeger(trace: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Spans of a trace of Jaeger: its times are microseconds, its tags and logs are attributes and events."""
    processes = object_of(trace.get("processes"))
    for span in entries_of("spans", trace.get("spans")):
        if isinstance(span, str):
            yield span
            continue
        begin, duration = span.get("startTime"), span.get("duration")
        tags = _tags(span.get("tags"))
        process = object_of(processes.get(str(span.get("processID"))))
        logs = [_tags(log.get("fields")) for log in objects_of(span.get("logs"))]
        parents = [
            reference for reference in objects_of(span.get("references")) if reference.get("refType") != "FOLLOWS_FROM"
        ]
        failed = tags.get("error") in _ERRORS or tags.get("otel.status_code") in _ERRORS
        yield {
            "traceId": span.get("traceID"),
            "spanId": span.get("spanID"),
            "parentSpanId": (parents[0] if parents else {}).get("spanID"),
            "name": span.get("operationName"),
            "startTimeUnixNano": _nanoseconds(begin),
            "endTimeUnixNano": _nanoseconds(begin + duration if type(begin) is type(duration) is int else None),
            "attributes": tags,
            "events": [{"name": first_of(fields, ("event", "name")), "attributes": fields} for fields in logs],
            "status": {"code": 2 if failed else 0, "message": tags.get("otel.status_description")},
            "resource": _tags(process.get("tags")) | {"service.name": process.get("serviceName")},
        }


def _nanoseconds(microseconds: Any) -> Any:
    """Nanoseconds of whole microseconds; other values as they are, to be named where spans are read."""
    return microseconds * 1_000 if type(microseconds) is int else microseconds


def _tags(listed: Any) -> dict[str, Any]:
    tags = ((tag.get("key"), tag.get("value")) for tag in objects_of(listed))
    return {key: value for key, value in tags if isinstance(key, str) and key and value is not None}


def _alone(span: Mapping[str, Any]) -> dict[str, Any]:
    """A span that is no part of another object; its attributes are listed as in OTLP, or one object, flat or nested."""
    context, status, kind = object_of(span.get("context")) or span, object_of(span.get("status")), span.get("span_kind")
    code, attributes = first_of({**span, **status}, ("status_code", "code")), span.get("attributes")
    if isinstance(attributes, dict):
        attributes = ({"openinference.span.kind": kind} if kind else {}) | _flat(attributes)
    return {
        "traceId": first_of(context, _TRACE_ID),
        "spanId": first_of(context, _SPAN_ID),
        "parentSpanId": first_of(span, ("parent_id", "parent_span_id", "parentSpanId", "parentId")),
        "name": span.get("name"),
        "startTimeUnixNano": first_of(span, ("start_time", "startTimeUnixNano", "start_time_unix_nano", "startTime")),
        "endTimeUnixNano": first_of(span, ("end_time", "endTimeUnixNano", "end_time_unix_nano", "endTime")),
        "attributes": attributes,
        "events": span.get("events"),
        "status": {
            "code": 2 if code in (2, "ERROR", "STATUS_CODE_ERROR") else 0,
            "message": first_of(status, ("description", "message")) or span.get("status_message"),
        },
        "resource": object_of(span.get("resource")).get("attributes"),
    }


def _flat(attributes: Any) -> dict[str, Any]:
    """Attributes with the names of nested ones joined by dots, and the places of lists among them."""
    flat: dict[str, Any] = {}
    waiting: list[tuple[str, Any, int]] = [(str(name), value, 0) for name, value in object_of(attributes).items()]
    while waiting:
        name, value, level = waiting.pop()
        inner: Any = ()
        if level < _MOST_NESTED and not name.endswith(_VALUES):
            is_list = isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value)
            inner = value.items() if isinstance(value, dict) else enumerate(value) if is_list else ()
        if inner:
            waiting += [(f"{name}.{key}", entry, level + 1) for key, entry in inner]
        elif value is not None:
            flat[name] = value
    return flat
