"""A trace as a row: its spans in order as steps, what was asked and what was answered."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import isclose
from typing import Any, NamedTuple

from gradebook.rubrics.model.canonical import canonical_json
from gradebook.tasks.datasets.conversations import id_of_prompt, steps_of_messages
from gradebook.tasks.datasets.traces.fields import decoded, short_of
from gradebook.tasks.datasets.traces.messages import Message, said_by

_SHOWN = 80  # characters of an id in a message
_MOST_DIFFERENCES = 20  # of usage that a row's metadata lists
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
    """Row of a trace.

    What the first model of the outermost agents was asked is the prompt, or without agents the first model. The answer
    is the last text of the outermost agent or model. Where no span is a tool's, the calls and results in the models'
    messages are steps below them.
    """
    spans = ordered.spans
    run = _Run(spans, ordered.parents)
    agents, models = run.main_spans("agent"), run.main_spans("model")
    asked: Sequence[Message] = next((span.asked for span in [*models, *agents, *spans] if span.asked), ())
    prompt, done = _divided(asked)
    metadata = {name: value for span in reversed(spans) for name, value in span.metadata.items()}
    if differences := [*run.count_once("tokens"), *run.count_once("cost_usd")]:
        metadata["usage_differences"] = differences[:_MOST_DIFFERENCES]
    asks = [span for span in spans if span.step["kind"] != "tool"] or spans
    question: Any = prompt or next((span.step["input"] for span in asks if span.step.get("input") is not None), None)
    row = {
        "case_id": f"trace-{trace_id}" if question is None else id_of_prompt(_lasting(question) or question),
        "model": next((span.model for span in [*models[::-1], *agents[::-1]] if span.model), default_model),
        "prompt": question,
        "output": run.answer(),
        "context": [text for span in spans for text in span.documents] or None,
        "steps": run.all_steps(done),
        "metadata": metadata | {"trace_id": trace_id},
    }
    return row | {name: value for span in reversed(spans) for name, value in span.columns.items()}


def _divided(asked: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Messages of the question, and the calls of tools after it with their results, which are a run's own work."""
    last = max((place for place, message in enumerate(asked) if message["role"] == "user"), default=-1)
    begin = last + 1 + sum(1 for _ in takewhile(lambda message: message["role"] == "system", asked[last + 1 :]))
    done = list(asked[begin:])
    has_calls = any(message["role"] == "tool" or "tool_calls" in message for message in done)
    return (list(asked[:begin]), done) if has_calls else (list(asked), [])


def _lasting(prompt: Any) -> Any:
    """A prompt without what is new in each run: results of tools in an earlier turn, and the ids of their calls."""
    if not isinstance(prompt, list) or not all(isinstance(each, dict) for each in prompt):
        return prompt
    asked = [{name: value for name, value in each.items() if name != "tool_calls"} for each in prompt]
    return [message for message in asked if message.get("role") != "tool" and set(message) != {"role"}]


class _Run:
    """Steps of a trace while they are put together; one for each span, at its place."""

    def __init__(self, spans: Sequence[Span], parents: Sequence[int | None]) -> None:
        self._spans, self._parents = spans, parents
        self._steps = [{name: value for name, value in span.step.items() if value is not None} for span in spans]
        self._calls = _calls_of(spans, self._places_around())
        self._find_tools()
        self._around = self._places_around()
        self._is_main: list[bool] = []  # whether a span is an outermost agent, or within one
        for step, around in zip(self._steps, self._around, strict=True):
            self._is_main.append(step["kind"] == "agent" if around is None else self._is_main[around])

    def _find_tools(self) -> None:
        """Make spans of no kind that bear the name of a tool that a model called steps of that tool, the innermost."""
        calls: dict[str, list[dict[str, Any]]] = {}
        for call in (call for found in self._calls.values() for call in found if "name" in call):
            calls.setdefault(call["name"], []).append(call)
        below: dict[int | None, set[str]] = {}  # names of tools below a span
        for place in reversed(range(len(self._steps) if calls else 0)):
            step, inner = self._steps[place], below.pop(place, set[str]())
            name = str(step.get("name", "")).removeprefix("tool.").removeprefix("execute_tool ")
            if step["kind"] == "system" and name in calls and name not in inner:
                step |= {"kind": "tool", "name": name}
                inner.add(name)
            beside = below.get(self._parents[place], set[str]())
            smaller, larger = sorted((inner, beside), key=len)
            larger |= smaller
            below[self._parents[place]] = larger
        tools: dict[str, list[dict[str, Any]]] = {}
        for step in self._steps:
            if step["kind"] == "tool" and step.get("name") in calls:
                tools.setdefault(step["name"], []).append(step)
        for name, steps in tools.items():
            if len(steps) == len(calls[name]):
                for step, call in zip(steps, calls[name], strict=True):
                    _complete(step, call)

    def _places_around(self) -> list[int | None]:
        """Place of the innermost agent, model or tool around each span; None: none is."""
        around: list[int | None] = []
        for parent in self._parents:
            is_one = parent is not None and self._steps[parent]["kind"] in ("agent", "model", "tool")
            around.append(parent if parent is None or is_one else around[parent])
        return around

    def main_spans(self, kind: str) -> list[Span]:
        """Spans of a kind that are outermost agents or within them; all of the kind where none is.

        A model beside the agents, such as one that makes a title, has no part in what they were asked or answered.
        """
        of_kind = [place for place, step in enumerate(self._steps) if step["kind"] == kind]
        return [self._spans[place] for place in [place for place in of_kind if self._is_main[place]] or of_kind]

    def count_once(self, measure: str) -> list[dict[str, Any]]:
        """Leave a measure to the lowest spans that have it; the sums above them that differ from theirs.

        A model's own request has spans below it of the kinds model and system: what a tool or an agent that it
        started used is not part of it.
        """
        count = len(self._steps)
        below, requested = [0] * count, [0] * count  # all that is counted below a span, and that of its own request
        differences = []
        for place in reversed(range(count)):
            step, parent = self._steps[place], self._parents[place]
            parts = requested[place] if step["kind"] == "model" else below[place]
            if (own := step.get(measure)) and parts:
                del step[measure]
                if not isclose(own, parts, rel_tol=1e-6):
                    span_id = self._spans[place].span_id
                    differences.append({"span_id": span_id, "measure": measure, "stated": own, "below": parts})
            counted = step.get(measure) or 0
            if parent is not None:
                below[parent] += counted + below[place]
                requested[parent] += counted + requested[place] if step["kind"] in ("model", "system") else 0
        return differences[::-1]

    def answer(self) -> str:
        """Last text of the outermost agent, else of the outermost model; else what a root gave back."""
        texts = [said_by(span.answered) for span in self._spans]
        latest: dict[int | None, str] = {}  # text of the last agent or model directly within another one
        tops: dict[str, str] = {}  # of those around which none is, by their kinds
        for place in reversed(range(len(self._steps))):
            step, around = self._steps[place], self._around[place]
            if step["kind"] in ("agent", "model"):
                texts[place] = texts[place] or _plain(step) or latest.get(place, "")
                if texts[place]:
                    latest.setdefault(around, texts[place])
                if around is None:
                    tops[step["kind"]] = tops.get(step["kind"]) or texts[place]
        models = [place for place, step in enumerate(self._steps) if step["kind"] == "model"]
        roots = [place for place, parent in enumerate(self._parents) if parent is None]
        said = (texts[0] if len(roots) == 1 else "") or tops.get("agent", "")
        if not said and not any(self._is_main[place] for place in models):  # a model beside agents may make a title
            said = tops.get("model", "")
        if not said and not tops:  # all models are within tools
            said = next((texts[place] for place in reversed(models) if texts[place]), "")
        kinds = ("agent", "system", *(("model", "tool", "retrieval") if len(roots) == 1 else ()))
        ends = [self._steps[place] for place in reversed(roots) if self._steps[place]["kind"] in kinds]
        output = next((step["output"] for step in ends if "output" in step), "")
        return said or (output if isinstance(output, str) else canonical_json(output))

    def all_steps(self, before: Sequence[Message]) -> list[dict[str, Any]]:
        """Steps of the spans. Where none is a tool's, those of the calls in messages: before the first span, and below.

        before: messages of the run from before its first span.
        """
        has_tools = any(step["kind"] in ("tool", "retrieval") for step in self._steps)
        steps = [] if has_tools else steps_of_messages(before)
        places: list[int] = []
        for place, (step, parent) in enumerate(zip(self._steps, self._parents, strict=True)):
            places.append(len(steps))
            parent_index = None if parent is None else places[parent]
            steps.append(step | {"span_id": self._spans[place].span_id, "parent_index": parent_index})
            if not has_tools:
                steps += [call | {"kind": "tool", "parent_index": places[place]} for call in self._calls.get(place, ())]
        return steps


def _calls_of(spans: Sequence[Span], around: Sequence[int | None]) -> dict[int, list[dict[str, Any]]]:
    """Steps of the calls that each model answered with, by its place; results are in what later models were asked.

    A span within that of another model may repeat its calls: they are left out. around: see `_Run._places_around`.
    """
    answers = {place: calls for place, span in enumerate(spans) if (calls := _called(span))}
    keys: dict[int | None, list[Any]] = {place: list(map(_key_of, calls)) for place, calls in answers.items()}
    results = _results(spans) if answers else {}
    counts: Counter[Any] = Counter()
    found: dict[int, list[dict[str, Any]]] = {}
    for place, calls in answers.items():
        if keys[place] == keys.get(around[place]):
            continue
        for key, call in zip(keys[place], calls, strict=True):
            function = call["function"]
            step = {"name": short_of(function.get("name")), "input": decoded(function.get("arguments"))}
            step |= results.get((key, counts[key]), {})
            counts[key] += 1
            found.setdefault(place, []).append({name: value for name, value in step.items() if value is not None})
    return found


def _called(span: Span) -> list[dict[str, Any]]:
    if span.step["kind"] != "model":
        return []
    return [call for message in span.answered for call in message.get("tool_calls", ())]


def _key_of(call: Mapping[str, Any]) -> Any:
    """A call's id; without one its name and arguments."""
    function = call["function"]
    return short_of(call.get("id")) or (str(function.get("name")), canonical_json(decoded(function.get("arguments"))))


def _results(spans: Iterable[Span]) -> dict[tuple[Any, int], dict[str, Any]]:
    """Output and error of calls, by a call's key and by how many of that key came before in its conversation."""
    results: dict[tuple[Any, int], dict[str, Any]] = {}
    for span in spans:
        keys = [_key_of(call) for message in span.asked for call in message.get("tool_calls", ())]
        steps = [step for step in steps_of_messages(span.asked) if "parent_index" in step] if keys else []
        counts: Counter[Any] = Counter()
        for key, step in zip(keys, steps, strict=True):
            results.setdefault((key, counts[key]), {name: step[name] for name in ("output", "error") if name in step})
            counts[key] += 1
    return results


def _complete(step: dict[str, Any], call: Mapping[str, Any]) -> None:
    """Add what a call's messages say and its span does not: arguments as an object, and the result."""
    if not isinstance(step.get("input"), dict) and isinstance(call.get("input"), dict):
        step["input"] = call["input"]
    if "output" not in step and "error" not in step:
        step |= {name: call[name] for name in ("output", "error") if name in call}


def _plain(step: Mapping[str, Any]) -> str:
    """Text that an agent gave back, unless it is an object as text."""
    output = step.get("output")
    return output if step["kind"] == "agent" and isinstance(output, str) and output[:1] not in ("{", "[") else ""
