"""Exports of Langfuse: traces with their observations, and observations alone."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gradebook.tasks.datasets.traces.documents import Part
from gradebook.tasks.datasets.traces.fields import (
    amount_of,
    decoded,
    entries_of,
    error_of,
    first_of,
    id_of,
    nanoseconds_of,
    object_of,
    objects_of,
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
from gradebook.tasks.datasets.traces.otlp import INPUT, OUTPUT, kind_of_fields, tool_of_fields
from gradebook.tasks.datasets.traces.spans import Span, kind_of

_TRACE_ID = ("traceId", "trace_id")
_MODEL = ("model", "providedModelName", "provided_model_name")
_PARENT = ("parentObservationId", "parent_observation_id")
_SESSION = ("sessionId", "session_id")
_TOKENS = ("totalTokens", "total_tokens", "totalUsage")
_USAGE = ("usageDetails", "usage_details", "usage")
_COSTS = ("costDetails", "cost_details")
_COST = ("calculatedTotalCost", "totalCost", "total_cost", "calculated_total_cost")


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    is_observation = first_of(first, _TRACE_ID) is not None and isinstance(first.get("type"), str)
    return isinstance(first.get("observations"), list) or (is_observation and first["type"].isupper())


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part | str]:
    """Observations of a trace, below a span for the trace itself; or the one observation.

    Langfuse's own page downloads a trace as {trace, observations}; the trace in it has observations without texts.
    """
    if "observations" not in document and first_of(document, _TRACE_ID) is not None:
        yield Part(str(first_of(document, _TRACE_ID)), line, dict(document), size)
        return
    trace_objects = objects_of(document.get("traces")) or [object_of(document.get("trace")) or dict(document)]
    traces = {id_of("id", trace.get("id")): trace for trace in trace_objects}
    observations = list(entries_of("observations", document.get("observations")))
    share = size // (len(observations) + len(traces))
    placed = [
        observation if isinstance(observation, str) else (_trace_of(observation, traces), observation)
        for observation in observations
    ]
    with_agents = {entry[0] for entry in placed if not isinstance(entry, str) and entry[1].get("type") == "AGENT"}
    for trace_id, trace in traces.items():
        root = {name: value for name, value in trace.items() if name != "observations"}
        kind = "TRACE" if trace_id in with_agents else "AGENT"
        yield Part(trace_id, line, root | {"type": kind, "id": trace_id}, share)
    for entry in placed:
        if isinstance(entry, str):
            yield entry
            continue
        trace_id, observation = entry
        ids = {"traceId": trace_id, "parentObservationId": first_of(observation, _PARENT) or trace_id}
        yield Part(trace_id, line, observation | ids, share)


def _trace_of(observation: Mapping[str, Any], traces: Mapping[str, Any]) -> str:
    """Id of an observation's trace: that of the only one where it names none."""
    return str(first_of(observation, _TRACE_ID) or next(iter(traces)))


def read_span(content: Mapping[str, Any]) -> Span:
    """Read an observation. Raises `MisfitError` where it can't be."""
    is_trace = first_of(content, _TRACE_ID) is None
    attributes = {} if is_trace else object_of(object_of(decoded(content.get("metadata"))).get("attributes"))
    kind = kind_of(content.get("type"))
    kind = kind_of_fields(attributes) if kind == "system" else kind
    input_value, output_value = (
        _value(content.get("input"), attributes, INPUT),
        _value(content.get("output"), attributes, OUTPUT),
    )
    is_model = kind == "model"
    started = nanoseconds_of("startTime", first_of(content, ("startTime", "start_time", "timestamp")))
    usage = tokens_of("tokens", first_of(content, _USAGE)) or tokens_of("tokens", {"total": first_of(content, _TOKENS)})
    costs = object_of(first_of(content, _COSTS))
    session = text_of(first_of(content, _SESSION))
    failed = content.get("level") == "ERROR"
    result = result_within(output_value) if kind in ("tool", "system") else None
    is_text = is_trace and isinstance(output_value, str) and not output_value.startswith(("{", "["))
    answer_messages = (
        answered_messages(output_value) if is_model or is_text else messages_within(output_value, "assistant")
    )
    answered = [] if result else answer_messages
    output = last_content(answered) if is_model else result["content"] if result else output_value
    failed = failed or (result is not None and "is_error" in result)
    message = first_of(content, ("statusMessage", "status_message"))
    return Span(
        id_of("id", content.get("id")),
        text_of(first_of(content, _PARENT)),
        started,
        {
            "kind": "tool" if result else kind,
            "name": text_of(first_of(content, _MODEL) if is_model else None)
            or (tool_of_fields(attributes) if kind == "tool" else None)
            or text_of(content.get("name")),
            "input": None if is_model else input_value,
            "output": output,
            "error": error_of(message, attributes.get("exception.message"), output) if failed else None,
            "tokens": usage or (tokens_of("tokens", usage_in(output_value)) if is_model else None),
            "cost_usd": amount_of("cost", first_of(content, _COST)) or amount_of("cost", costs.get("total")) or None,
            **timing(started, nanoseconds_of("endTime", first_of(content, ("endTime", "end_time")))),
        },
        chat_messages(input_value) if is_model else messages_within(input_value),
        answered,
        text_of(first_of(content, _MODEL)),
        metadata={"session_id": session} if session else {},
    )


def _value(value: Any, attributes: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Input or output; its database has JSON as a text, of which some exports make JSON once more.

    attributes: of OpenTelemetry's span, where it came from one; they have the value under one of the names.
    """
    return decoded(decoded(first_of(attributes, names) if value is None else value))
