"""Traces of MLflow, as `search_traces` and `Trace.to_json` write them."""

from collections.abc import Iterator, Mapping
from typing import Any

from gradebook.tasks.datasets.traces.documents import Part
from gradebook.tasks.datasets.traces.fields import (
    decoded,
    entries_of,
    error_of,
    first_of,
    id_of,
    nanoseconds_of,
    object_of,
    objects_of,
    raise_misfit,
    short_of,
    text_of,
    timing,
    tokens_of,
    usage_in,
)
from gradebook.tasks.datasets.traces.messages import (
    answered_messages,
    chat_messages,
    last_content,
    messages_within,
    result_within,
)
from gradebook.tasks.datasets.traces.spans import Span, kind_of

_STARTED = ("start_time_unix_nano", "start_time_ns", "start_time")
_ENDED = ("end_time_unix_nano", "end_time_ns", "end_time")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    return isinstance(first.get("info"), dict) and isinstance(decoded(first.get("data")), dict)


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part | str]:
    """Spans of one trace. Raises `MisfitError`."""
    spans = list(entries_of("data.spans", object_of(decoded(document.get("data"))).get("spans")))
    if not spans:
        raise_misfit("data.spans", [], "some spans")
    info = object_of(document.get("info"))
    trace_id = id_of("info.trace_id", first_of(info, ("trace_id", "request_id")))
    metadata = object_of(first_of(info, ("trace_metadata", "request_metadata")))
    session = short_of(metadata.get("mlflow.trace.session"))
    for span in spans:
        yield span if isinstance(span, str) else Part(trace_id, line, span | {"session": session}, size // len(spans))


def read_span(content: Mapping[str, Any]) -> Span:
    """Read a span. Raises `MisfitError` where it can't be."""
    fields = {name: decoded(value) for name, value in object_of(content.get("attributes")).items()}
    kind = kind_of(fields.get("mlflow.spanType"))
    is_model = kind == "model"
    inputs, outputs = fields.get("mlflow.spanInputs"), fields.get("mlflow.spanOutputs")
    answered = answered_messages(outputs) if is_model else messages_within(outputs, "assistant")
    result = result_within(outputs) if kind == "tool" else None
    model = text_of(first_of(fields, ("mlflow.llm.model", "model"))) or next(
        (name for side in (inputs, outputs) if (name := text_of(object_of(side).get("model")))), None
    )
    status = content.get("status")
    code = object_of(status).get("code", content.get("status_code"))
    message = object_of(status).get("message", content.get("status_message"))
    exceptions = [
        object_of(event.get("attributes")).get("exception.message") for event in objects_of(content.get("events"))
    ]
    failed = str(code) in ("ERROR", "STATUS_CODE_ERROR")
    started = nanoseconds_of("start_time", first_of(content, _STARTED))
    session = text_of(content.get("session"))
    return Span(
        id_of("span_id", first_of(content, ("span_id", "id"))),
        text_of(first_of(content, ("parent_span_id", "parent_id"))),
        started,
        {
            "kind": kind,
            "name": (model if is_model else None) or text_of(content.get("name")),
            "input": None if is_model else inputs,
            "output": last_content(answered) if is_model else result["content"] if result else outputs,
            "error": error_of(message, *exceptions) if failed else None,
            "tokens": tokens_of("tokens", fields.get("mlflow.chat.tokenUsage"))
            or (tokens_of("tokens", usage_in(outputs)) if is_model else None),
            **timing(started, nanoseconds_of("end_time", first_of(content, _ENDED))),
        },
        chat_messages(inputs) if is_model else messages_within(inputs),
        answered,
        model if is_model or answered else None,
        [text for document in objects_of(outputs) if (text := text_of(document.get("page_content")))]
        if kind == "retrieval"
        else (),
        metadata={"session_id": session} if session else {},
    )
