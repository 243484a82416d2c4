"""Exports of Langfuse: traces with their observations, and observations alone."""

from collections.abc import Iterator, Mapping
from typing import Any

from gradebook.tasks.datasets.traces.fields import (
    amount_of,
    count_of,
    decoded,
    entries_of,
    first_of,
    id_of,
    nanoseconds_of,
    object_of,
    text_of,
    timing,
)
from gradebook.tasks.datasets.traces.grouping import Part
from gradebook.tasks.datasets.traces.messages import chat_messages, last_content
from gradebook.tasks.datasets.traces.spans import Span, kind_of

_TRACE_ID = ("traceId", "trace_id")
_MODEL = ("model", "providedModelName", "provided_model_name")
_SESSION = ("sessionId", "session_id")
_TOKENS = ("totalTokens", "total_tokens", "totalUsage")
_COST = ("calculatedTotalCost", "totalCost", "total_cost", "calculated_total_cost")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    is_observation = first_of(first, _TRACE_ID) is not None and isinstance(first.get("type"), str)
    return isinstance(first.get("observations"), list) or (is_observation and first["type"].isupper())


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part | str]:
    """Observations of a trace, below a span for the trace itself; or the one observation."""
    if "observations" not in document and first_of(document, _TRACE_ID) is not None:
        yield Part(str(first_of(document, _TRACE_ID)), line, dict(document), size)
        return
    trace_id = id_of("id", document.get("id"))
    observations = list(entries_of("observations", document.get("observations")))
    share = size // (len(observations) + 1)
    root = {name: value for name, value in document.items() if name != "observations"}
    yield Part(trace_id, line, root | {"type": "AGENT", "id": trace_id}, share)
    for each in observations:
        yield each if isinstance(each, str) else Part(trace_id, line, {"parentObservationId": trace_id} | each, share)


def read_span(content: Mapping[str, Any]) -> Span:
    """Read an observation. Raises `MisfitError` where it can't be."""
    kind = kind_of(content.get("type"))
    given, made = decoded(content.get("input")), decoded(content.get("output"))
    is_model = kind == "model"
    started = nanoseconds_of("startTime", first_of(content, ("startTime", "start_time", "timestamp")))
    usage = object_of(first_of(content, ("usageDetails", "usage_details", "usage")))
    session = text_of(first_of(content, _SESSION))
    failed = content.get("level") == "ERROR"
    message = text_of(first_of(content, ("statusMessage", "status_message")))
    answered = chat_messages(made, "assistant") if is_model else []
    return Span(
        id_of("id", content.get("id")),
        text_of(first_of(content, ("parentObservationId", "parent_observation_id"))),
        started,
        {
            "kind": kind,
            "name": text_of(first_of(content, _MODEL) if is_model else None) or text_of(content.get("name")),
            "input": None if is_model else given,
            "output": last_content(answered) if is_model else made,
            "error": (message or "failed") if failed else None,
            "tokens": count_of("tokens", first_of(usage, ("total", "totalTokens")) or first_of(content, _TOKENS)),
            "cost_usd": amount_of("cost", first_of(content, _COST)),
            **timing(started, nanoseconds_of("endTime", first_of(content, ("endTime", "end_time")))),
        },
        chat_messages(given) if is_model else [],
        answered,
        text_of(first_of(content, _MODEL)),
        metadata={"session_id": session} if session else {},
    )
