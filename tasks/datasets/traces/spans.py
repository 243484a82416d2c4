"""A trace as a row: its spans in order as steps, what was asked and what was answered."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from gradebook.rubrics.model.canonical import canonical_json
from gradebook.tasks.datasets.conversations import id_of_prompt, steps_of_messages
from gradebook.tasks.datasets.traces.messages import Message, said_by

_SHOWN = 80  # characters of an id in a message
# Columns that an attribute `gradebook.COLUMN` of any span sets.
OWN_COLUMNS = ("case_id", "model", "checkpoint", "sample_index", "reference", "cluster")
# Kinds of steps by the names that formats have for kinds of spans, in small letters.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("llm", "chat", "chat_model", "completion", "text_completion", "generation"), "model"),
    **dict.fromkeys(("generate_content", "rerank_model"), "model"),
    **dict.fromkeys(("tool", "execute_tool"), "tool"),
    **dict.fromkeys(("retriever", "retrieval", "reranker"), "retrieval"),
    **dict.fromkeys(("agent", "invoke_agent", "create_agent", "invoke_workflow", "workflow"), "agent"),
}


class Span(NamedTuple):
    """One span, read from any format."""

    span_id: str
    parent_id: str | None
    started: int | None  # nanoseconds since 1970
    step: dict[str, Any]  # the fields of the step but parent_index
    asked: Sequence[Message] = ()  # what a model or an agent was given
    answered: Sequence[Message] = ()  # what it answered
    model: str | None = None  # its name
    documents: Sequence[str] = ()  # what was retrieved
    columns: Mapping[str, Any] = {}  # set by the span's `gradebook.` attributes
    metadata: Mapping[str, Any] = {}  # of the trace, as far as this span says it


class OrderedSpans(NamedTuple):
    """Spans with each parent before its children, else by time; and those that have no place, with the reason."""

    spans: list[Span]
    parents: list[int | None]  # by span: its parent's place
    misfits: list[tuple[Span, str]]


def kind_of(name: Any) -> str:
    """Kind of a step by a format's name for it; `system` for all others."""
    return KINDS.get(str(name).lower(), "system")


def in_order(spans: Iterable[Span]) -> OrderedSpans:
    """Order the spans of one trace. A span whose parent is not in the file stands for itself, as a root does."""
    by_id: dict[str, tuple[int, Span]] = {}
    misfits = []
    for place, span in enumerate(spans):
        if span.span_id in by_id:
            misfits.append((span, f"span {span.span_id[:_SHOWN]} comes a second time in its trace, expected it once"))
        else:
            by_id[span.span_id] = place, span
    children: dict[str | None, list[tuple[int, int, Span]]] = {}
    for place, span in by_id.values():
        parent = span.parent_id if span.parent_id in by_id else None
        children.setdefault(parent, []).append((span.started or 0, place, span))
    ordered: list[Span] = []
    parents: list[int | None] = []
    places: dict[str, int] = {}
    waiting = children.pop(None, [])
    heapq.heapify(waiting)
    while waiting:
        _, _, span = heapq.heappop(waiting)
        places[span.span_id] = len(ordered)
        ordered.append(span)
        parents.append(places.get(span.parent_id or ""))
        for child in children.pop(span.span_id, ()):
            heapq.heappush(waiting, child)
    reason = "span {} is among its own ancestors, or below such spans, expected a tree of spans"
    misfits += [(span, reason.format(span.span_id[:_SHOWN])) for left in children.values() for _, _, span in left]
    return OrderedSpans(ordered, parents, misfits)


def row_of_spans(trace_id: str, ordered: OrderedSpans, default_model: str) -> dict[str, Any]:
    """Row of a trace. Where no span is a tool's, the calls and results in its messages are its steps.

    What the first model was asked is the prompt. The answer is what the root answered in a message, else the last
    model's, else what the root gave back.
    """
    spans = ordered.spans
    models = [span for span in spans if span.step["kind"] == "model"]
    talk = _traced_talk(spans, models)
    steps = [
        {name: value for name, value in span.step.items() if value is not None}
        | {"span_id": span.span_id, "parent_index": parent}
        for span, parent in zip(spans, ordered.parents, strict=True)
    ]
    asked = next((span.asked for span in [*models, *spans] if span.asked), ())
    if talk:
        asked = list(takewhile(lambda message: message["role"] != "assistant", talk))
        steps = steps_of_messages(talk[len(asked) :])
    prompt = list(asked) or _first(spans, "input")
    row = {
        "case_id": id_of_prompt(prompt if prompt is not None else spans[0].step.get("name")),
        "model": next((span.model for span in reversed(models) if span.model), None) or default_model,
        "prompt": prompt,
        "output": _answer(spans, models),
        "context": [text for span in spans for text in span.documents] or None,
        "steps": steps,
        "metadata": {name: value for span in reversed(spans) for name, value in span.metadata.items()}
        | {"trace_id": trace_id},
    }
    return row | {name: value for span in reversed(spans) for name, value in span.columns.items()}


def _traced_talk(spans: Sequence[Span], models: Sequence[Span]) -> list[Message]:
    """Conversation of the last model, if it called tools that have no spans of their own."""
    if not models or any(span.step["kind"] in ("tool", "retrieval") for span in spans):
        return []
    talk = [*models[-1].asked, *models[-1].answered]
    return talk if any(message["role"] == "tool" for message in talk) else []


def _first(spans: Sequence[Span], field: str) -> Any:
    return next((span.step[field] for span in spans if span.step.get(field) is not None), None)


def _answer(spans: Sequence[Span], models: Sequence[Span]) -> str:
    root = spans[0]
    said = said_by(root.answered) or next((text for span in reversed(models) if (text := said_by(span.answered))), "")
    if said or root.step.get("output") is None:
        return said
    output = root.step["output"]
    return output if isinstance(output, str) else canonical_json(output)
