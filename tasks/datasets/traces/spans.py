"""A trace as a row: its spans in order as steps, what was asked and what was answered."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import isclose
from typing import Any, NamedTuple

from gradebook.rubrics.model.json_values import canonical_json
from gradebook.tasks.datasets.row_parser import id_of_prompt, steps_of_messages
from gradebook.tasks.datasets.traces.fields import decoded, short_of
from gradebook.tasks.datasets.traces.messages import Message, joined_text

_SHOWN_CHARACTERS = 80  # characters of an id in a message
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
    asked: Sequence[Message] = ()  # input of a model or an agent
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
    """Order the spans of one trace. A span whose parent is not in the file is a root."""
    by_id: dict[str, tuple[int, Span]] = {}
    misfits = []
    for index, span in enumerate(spans):
        if span.span_id in by_id:
            misfits.append(
                (span, f"span {span.span_id[:_SHOWN_CHARACTERS]} comes a second time in its trace, expected it once")
            )
        else:
            by_id[span.span_id] = index, span
    children: dict[str | None, list[tuple[int, int, Span]]] = {}
    for index, span in by_id.values():
        parent = span.parent_id if span.parent_id in by_id else None
        children.setdefault(parent, []).append((span.started or 0, index, span))
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
    misfits += [
        (span, reason.format(span.span_id[:_SHOWN_CHARACTERS])) for left in children.values() for _, _, span in left
    ]
    return OrderedSpans(ordered, parents, misfits)


def row_of_spans(trace_id: str, ordered: OrderedSpans, default_model: str) -> dict[str, Any]:
    """Row of a trace.

    The prompt is the question to the first model of the outermost agents, or without agents to the first model. The
    answer is the last text of the outermost agent or model. Where no span is a tool's, the calls and results in the
    models' messages are steps below them.
    """
    spans = ordered.spans
    run = _Run(spans, ordered.parents)
    agents, models = run.main_spans("agent"), run.main_spans("model")
    prompt_messages: Sequence[Message] = next((span.asked for span in [*models, *agents, *spans] if span.asked), ())
    prompt, done = _split_prompt(prompt_messages)
    metadata = {name: value for span in reversed(spans) for name, value in span.metadata.items()}
    if differences := [*run.count_once("tokens"), *run.count_once("cost_usd")]:
        metadata["usage_differences"] = differences[:_MOST_DIFFERENCES]
    asks = [span for span in spans if span.step["kind"] != "tool"] or spans
    question: Any = prompt or next((span.step["input"] for span in asks if span.step.get("input") is not None), None)
    row = {
        "case_id": f"trace-{trace_id}"
        if question is None
        else id_of_prompt(_without_run_details(question) or question),
        "model": next((span.model for span in [*models[::-1], *agents[::-1]] if span.model), default_model),
        "prompt": question,
        "output": run.answer(),
        "context": [text for span in spans for text in span.documents] or None,
        "steps": run.all_steps(done),
        "metadata": metadata | {"trace_id": trace_id},
    }
    return row | {name: value for span in reversed(spans) for name, value in span.columns.items()}


def _split_prompt(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Messages of the question, and the tool calls after it with their results, which belong to the run."""
    last = max((index for index, message in enumerate(messages) if message["role"] == "user"), default=-1)
    begin = last + 1 + sum(1 for _ in takewhile(lambda message: message["role"] == "system", messages[last + 1 :]))
    done = list(messages[begin:])
    has_calls = any(message["role"] == "tool" or "tool_calls" in message for message in done)
    return (list(messages[:begin]), done) if has_calls else (list(messages), [])


def _without_run_details(prompt: Any) -> Any:
    """Prompt without parts that differ from run to run: results of tools in an earlier turn, and ids of their calls."""
    if not isinstance(prompt, list) or not all(isinstance(message, dict) for message in prompt):
        return prompt
    plain_prompt = [{name: value for name, value in message.items() if name != "tool_calls"} for message in prompt]
    return [message for message in plain_prompt if message.get("role") != "tool" and set(message) != {"role"}]


class _Run:
    """Steps of a trace under construction: one for each span, at the same index."""

    def __init__(self, spans: Sequence[Span], parents: Sequence[int | None]) -> None:
        self._spans, self._parents = spans, parents
        self._steps = [{name: value for name, value in span.step.items() if value is not None} for span in spans]
        self._calls = _calls_of(spans, self._places_around())
        self._find_tools()
        self._drop_repeated_tools()
        self._around = self._places_around()
        self._is_main: list[bool] = []  # whether a span is an outermost agent, or within one
        for step, parent in zip(self._steps, self._around, strict=True):
            self._is_main.append(step["kind"] == "agent" if parent is None else self._is_main[parent])

    def _find_tools(self) -> None:
        """Turn innermost spans of no kind into tool steps if they have the name of a tool that a model called."""
        calls: dict[str, list[dict[str, Any]]] = {}
        for call in (call for span_calls in self._calls.values() for call in span_calls if "name" in call):
            calls.setdefault(call["name"], []).append(call)
        below: dict[int | None, set[str]] = {}  # names of tools below a span
        for index in reversed(range(len(self._steps) if calls else 0)):
            step, inner = self._steps[index], below.pop(index, set[str]())
            name = str(step.get("name", "")).removeprefix("tool.").removeprefix("execute_tool ")
            if step["kind"] == "system" and name in calls and name not in inner:
                step |= {"kind": "tool", "name": name}
                inner.add(name)
            siblings = below.get(self._parents[index], set[str]())
            smaller, larger = sorted((inner, siblings), key=len)
            larger |= smaller
            below[self._parents[index]] = larger
        tools: dict[str, list[dict[str, Any]]] = {}
        for step in self._steps:
            if step["kind"] == "tool" and step.get("name") in calls:
                tools.setdefault(step["name"], []).append(step)
        for name, steps in tools.items():
            if len(steps) == len(calls[name]):
                for step, call in zip(steps, calls[name], strict=True):
                    _complete(step, call)

    def _drop_repeated_tools(self) -> None:
        """Make a tool within a span of the same call no second call, such as an MCP server's within its client's."""
        for step, around in zip(self._steps, self._places_around(), strict=True):
            outer = {} if around is None else self._steps[around]
            if step["kind"] == outer.get("kind") == "tool" and step.get("name") == outer.get("name"):
                step["kind"] = "system" if step.get("input", outer.get("input")) == outer.get("input") else "tool"

    def _places_around(self) -> list[int | None]:
        """Index of the innermost agent, model or tool around each span; None if there is none."""
        around: list[int | None] = []
        for parent in self._parents:
            is_one = parent is not None and self._steps[parent]["kind"] in ("agent", "model", "tool")
            around.append(parent if parent is None or is_one else around[parent])
        return around

    def main_spans(self, kind: str) -> list[Span]:
        """Spans of a kind that are outermost agents or within them; all spans of the kind if there is none.

        A model outside the agents, such as one that makes a title, has no part in their input and output.
        """
        of_kind = [index for index, step in enumerate(self._steps) if step["kind"] == kind]
        return [self._spans[index] for index in [place for place in of_kind if self._is_main[place]] or of_kind]

    def count_once(self, measure: str) -> list[dict[str, Any]]:
        """Remove a measure from all but the lowest spans that have it. Returns the removed sums that differ.

        A model's own request includes the spans below it of the kinds model and system, but not the tools and agents
        that it started.
        """
        count = len(self._steps)
        below, requested = [0] * count, [0] * count  # all that is counted below a span, and that of its own request
        differences = []
        for index in reversed(range(count)):
            step, parent = self._steps[index], self._parents[index]
            parts = requested[index] if step["kind"] == "model" else below[index]
            if (own_count := step.get(measure)) and parts:
                del step[measure]
                if not isclose(own_count, parts, rel_tol=1e-6):
                    span_id = self._spans[index].span_id
                    differences.append({"span_id": span_id, "measure": measure, "stated": own_count, "below": parts})
            counted = step.get(measure) or 0
            if parent is not None:
                below[parent] += counted + below[index]
                requested[parent] += counted + requested[index] if step["kind"] in ("model", "system") else 0
        return differences[::-1]

    def answer(self) -> str:
        """Last text of the outermost agent, else of the outermost model, else the output of a root."""
        texts = [joined_text(span.answered) for span in self._spans]
        latest: dict[int | None, str] = {}  # text of the last agent or model directly within another one
        tops: dict[str, str] = {}  # of the outermost ones, by kind
        for index in reversed(range(len(self._steps))):
            step, parent = self._steps[index], self._around[index]
            if step["kind"] in ("agent", "model"):
                texts[index] = texts[index] or _plain(step) or latest.get(index, "")
                if texts[index]:
                    latest.setdefault(parent, texts[index])
                if parent is None:
                    tops[step["kind"]] = tops.get(step["kind"]) or texts[index]
        models = [index for index, step in enumerate(self._steps) if step["kind"] == "model"]
        roots = [index for index, parent in enumerate(self._parents) if parent is None]
        answer = (texts[0] if len(roots) == 1 else "") or tops.get("agent", "")
        if not answer and not any(
            self._is_main[index] for index in models
        ):  # a model outside the agents may make a title
            answer = tops.get("model", "")
        if not answer and not tops:  # all models are within tools
            answer = next((texts[index] for index in reversed(models) if texts[index]), "")
        kinds = ("agent", "system", *(("model", "tool", "retrieval") if len(roots) == 1 else ()))
        ends = [self._steps[index] for index in reversed(roots) if self._steps[index]["kind"] in kinds]
        output = next((step["output"] for step in ends if "output" in step), "")
        return answer or (output if isinstance(output, str) else canonical_json(output))

    def all_steps(self, before: Sequence[Message]) -> list[dict[str, Any]]:
        """Steps of the spans, and of the calls in messages of tools without spans, before the first span and below.

        before: messages of the run from before its first span.
        """
        names = {step.get("name") for step in self._steps if step["kind"] in ("tool", "retrieval")}
        called = {call.get("name") for calls in self._calls.values() for call in calls}
        has_tools, are_named_alike = bool(names), names <= called
        steps = [] if has_tools else steps_of_messages(before)
        positions: list[int] = []
        for index, (step, parent) in enumerate(zip(self._steps, self._parents, strict=True)):
            positions.append(len(steps))
            parent_index = None if parent is None else positions[parent]
            steps.append(step | {"span_id": self._spans[index].span_id, "parent_index": parent_index})
            steps += [
                call | {"kind": "tool", "parent_index": positions[index]}
                for call in self._calls.get(index, ())
                if are_named_alike and call.get("name") not in names
            ]
        return steps


def _calls_of(spans: Sequence[Span], around: Sequence[int | None]) -> dict[int, list[dict[str, Any]]]:
    """Steps of the calls in each model's answer, by the model's index. Results are in the input of later models.

    A span within another model's span may repeat its calls: they are left out. around: see `_Run._places_around`.
    """
    answers = {index: calls for index, span in enumerate(spans) if (calls := _called(span))}
    keys: dict[int | None, list[Any]] = {index: list(map(_key_of, calls)) for index, calls in answers.items()}
    results = _results(spans) if answers else {}
    counts: Counter[Any] = Counter()
    by_step: dict[int, list[dict[str, Any]]] = {}
    for index, calls in answers.items():
        if keys[index] == keys.get(around[index]):
            continue
        for key, call in zip(keys[index], calls, strict=True):
            function = call["function"]
            step = {"name": short_of(function.get("name")), "input": decoded(function.get("arguments"))}
            step |= results.get((key, counts[key]), {})
            counts[key] += 1
            by_step.setdefault(index, []).append({name: value for name, value in step.items() if value is not None})
    return by_step


def _called(span: Span) -> list[dict[str, Any]]:
    if span.step["kind"] != "model":
        return []
    return [call for message in span.answered for call in message.get("tool_calls", ())]


def _key_of(call: Mapping[str, Any]) -> Any:
    """Id of a call; its name and arguments if it has none."""
    function = call["function"]
    return short_of(call.get("id")) or (str(function.get("name")), canonical_json(decoded(function.get("arguments"))))


def _results(spans: Iterable[Span]) -> dict[tuple[Any, int], dict[str, Any]]:
    """Output and error of each call, by its key and the number of earlier calls with that key in the conversation."""
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
    """Add facts of a call's messages that its span lacks: arguments as an object, and the result."""
    if not isinstance(step.get("input"), dict) and isinstance(call.get("input"), dict):
        step["input"] = call["input"]
    if "output" not in step and "error" not in step:
        step |= {name: call[name] for name in ("output", "error") if name in call}


def _plain(step: Mapping[str, Any]) -> str:
    """Text of an agent's output, unless it is JSON."""
    output = step.get("output")
    return output if step["kind"] == "agent" and isinstance(output, str) and output[:1] not in ("{", "[") else ""
