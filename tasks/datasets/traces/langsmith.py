"""Exports of LangSmith: runs, one an object, also with their child runs inside."""

from collections.abc import Iterator, Mapping
from typing import Any

from gradebook.tasks.datasets.traces.documents import Part
from gradebook.tasks.datasets.traces.fields import (
    amount_of,
    entries_of,
    error_of,
    first_of,
    id_of,
    nanoseconds_of,
    object_of,
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


def matches(first: Mapping[str, Any]) -> bool:
    """Whether a file's first object is of this format."""
    return "run_type" in first and "inputs" in first


def parts(document: Mapping[str, Any], line: int, size: int) -> Iterator[Part | str]:
    """The run and all runs inside it."""
    trace_id = id_of("trace_id", document.get("trace_id") or document.get("id"))
    waiting: list[dict[str, Any] | str] = [dict(document)]
    parts = []
    while waiting:
        run = waiting.pop()
        parts.append(run)
        children = None if isinstance(run, str) else run.pop("child_runs", None)
        if children:
            parent = {"parent_run_id": short_of(object_of(run).get("id"))}
            waiting += [
                child if isinstance(child, str) else parent | child for child in entries_of("child_runs", children)
            ]
    for run in parts:
        yield run if isinstance(run, str) else Part(trace_id, line, run, size // len(parts))


def read_span(content: Mapping[str, Any]) -> Span:
    """Read a run. Raises `MisfitError` where it can't be."""
    kind = kind_of(content.get("run_type"))
    if kind == "system" and content.get("parent_run_id") is None:
        kind = "agent"  # the chain around all others
    inputs, outputs = object_of(content.get("inputs")), object_of(content.get("outputs"))
    is_model = kind == "model"
    answered = answered_messages(outputs) if is_model else messages_within(outputs, "assistant")
    gave = None if is_model else _alone(outputs, "output")
    result = result_within(gave) if kind == "tool" else None
    settings = object_of(object_of(content.get("extra")).get("metadata"))
    model = text_of(settings.get("ls_model_name")) if is_model else None
    started = nanoseconds_of("start_time", content.get("start_time"))
    session = text_of(first_of(settings, ("session_id", "thread_id")))
    return Span(
        id_of("id", content.get("id")),
        text_of(content.get("parent_run_id")),
        started,
        {
            "kind": kind,
            "name": model or text_of(content.get("name")),
            "input": None if is_model else _alone(inputs, "input"),
            "output": last_content(answered) if is_model else result["content"] if result else gave,
            "error": text_of(content.get("error"))
            or (error_of(result["content"]) if result and "is_error" in result else None),
            "tokens": tokens_of("total_tokens", content)
            or (tokens_of("usage_metadata", usage_in(outputs) or settings.get("usage_metadata")) if is_model else None),
            "cost_usd": amount_of("total_cost", content.get("total_cost")) or None,
            **timing(started, nanoseconds_of("end_time", content.get("end_time"))),
        },
        chat_messages(inputs) if is_model else messages_within(inputs),
        answered,
        model,
        metadata={"session_id": session} if session else {},
    )


def _alone(values: Mapping[str, Any], name: str) -> Any:
    """The one value that a tool was given or gave back, out of the object around it."""
    return values[name] if set(values) == {name} else dict(values) or None
