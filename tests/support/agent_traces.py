"""One run of an agent, written in each format of traces and in each dialect of OpenTelemetry.

It is asked for a room, searches, books one that is not there, and says so. Written from the formats' documents.
"""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

SYSTEM, QUESTION = "You book rooms.", "A room for two, please."
ANSWER = "Sorry, that room is gone."
MODEL = "qwen-9"
SEARCH, BOOK = {"guests": 2}, {"room": 7}
FOUND, GONE = "rooms 7 and 9", "no such room"
_BEGIN = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)

# What every format has to give, without what only some of them know.
STEPS = [
    ("model", None, None, None),
    ("tool", json.dumps(SEARCH), FOUND, None),
    ("model", None, None, None),
    ("tool", json.dumps(BOOK), None, GONE),
    ("model", None, ANSWER, None),
]


def _call(name: str, arguments: Mapping[str, Any], number: int) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call-{number}", "type": "function", "function": function}


ASKED = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
TALK = [
    *ASKED,
    {"role": "assistant", "content": None, "tool_calls": [_call("search", SEARCH, 1)]},
    {"role": "tool", "tool_call_id": "call-1", "content": FOUND},
    {"role": "assistant", "content": None, "tool_calls": [_call("book", BOOK, 2)]},
    {"role": "tool", "tool_call_id": "call-2", "content": GONE, "is_error": True},
    {"role": "assistant", "content": ANSWER},
]
# Each turn of the model: what it was given, and its answer.
_TURNS = [(TALK[:2], TALK[2]), (TALK[:4], TALK[4]), (TALK[:6], TALK[6])]


def _time(second: int) -> str:
    return (_BEGIN + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")


def _nano(second: int) -> int:
    return int((_BEGIN + timedelta(seconds=second)).timestamp()) * 10**9


def otlp_value(value: Any) -> dict[str, Any]:
    """A value as OTLP's JSON wraps it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": otlp_attributes(value)}}
    return {"stringValue": value}


def otlp_attributes(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes as OTLP's JSON lists them."""
    return [{"key": key, "value": otlp_value(value)} for key, value in fields.items()]


def otlp_span(number: int, fields: Mapping[str, Any], trace: str = "t1", **more: Any) -> dict[str, Any]:
    """A span below the first one, a second long."""
    return {
        "traceId": trace,
        "spanId": f"s{number}",
        "parentSpanId": "" if number == 0 else "s0",
        "name": f"span {number}",
        "startTimeUnixNano": str(_nano(number)),
        "endTimeUnixNano": str(_nano(number + 1)),
        "attributes": otlp_attributes(fields),
    } | more


def otlp_file(spans: list[dict[str, Any]]) -> dict[str, Any]:
    """One object of a collector's file."""
    resource = {"attributes": otlp_attributes({"service.name": "bookings"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "made"}, "spans": spans}]}]}


def _genai_parts(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        part = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
        return {"role": "tool", "parts": [part]}
    parts = [{"type": "text", "content": message["content"]}] if message["content"] else []
    parts += [
        {"type": "tool_call", "id": call["id"]}
        | {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
    return {"role": message["role"], "parts": parts}


def _genai(asked: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
    instructions = [{"type": "text", "content": message["content"]} for message in asked if message["role"] == "system"]
    given = [_genai_parts(message) for message in asked if message["role"] != "system"]
    return {
        "gen_ai.system_instructions": json.dumps(instructions),
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([_genai_parts(answer) | {"finish_reason": "stop"}]),
    }


_CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": MODEL,
    "gen_ai.usage.input_tokens": 90,
    "gen_ai.usage.output_tokens": 10,
}


def _with_tools(
    root: Mapping[str, Any],
    model: Callable[[int, list[dict[str, Any]], dict[str, Any]], dict[str, Any]],
    tool: Callable[[str, Mapping[str, Any], str | None], Mapping[str, Any]],
) -> dict[str, Any]:
    """File of the run: the agent's span, and below it models and tools in turn."""
    failed = {"status": {"code": 2, "message": GONE}}
    return otlp_file(
        [
            model(5, *_TURNS[2]),  # spans end, and are written, in any order
            otlp_span(0, root),
            model(1, *_TURNS[0]),
            otlp_span(2, tool("search", SEARCH, FOUND)),
            model(3, *_TURNS[1]),
            otlp_span(4, tool("book", BOOK, None), **failed),
        ]
    )


def _genai_tool(name: str, given: Mapping[str, Any], made: str | None) -> dict[str, Any]:
    fields = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    fields["gen_ai.tool.call.arguments"] = json.dumps(given)
    return fields | ({"gen_ai.tool.call.result": made} if made else {})


_AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "booker"}


def otlp_messages() -> dict[str, Any]:
    """Messages in attributes of the span."""
    return _with_tools(_AGENT, lambda n, asked, answer: otlp_span(n, _CHAT | _genai(asked, answer)), _genai_tool)


def otlp_details() -> dict[str, Any]:
    """Messages in the one event of the details."""

    def model(number: int, asked: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
        event = {"name": "gen_ai.client.inference.operation.details"}
        events = [event | {"attributes": otlp_attributes(_genai(asked, answer))}]
        return otlp_span(number, _CHAT, events=events)

    return _with_tools(_AGENT, model, _genai_tool)


def otlp_events() -> dict[str, Any]:
    """An event for each message."""

    def event(message: Mapping[str, Any], name: str) -> dict[str, Any]:
        fields = {key: value for key, value in message.items() if key in ("role", "content", "id") and value}
        if "tool_calls" in message:
            fields["tool_calls"] = json.dumps(message["tool_calls"])
        if name == "gen_ai.choice":
            fields = {"gen_ai.event.content": json.dumps({"index": 0, "message": dict(message)})}
        return {"name": name, "attributes": otlp_attributes(fields)}

    def model(number: int, asked: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
        events = [event(message, f"gen_ai.{message['role']}.message") for message in asked]
        return otlp_span(number, _CHAT, events=[*events, event(answer, "gen_ai.choice")])

    return _with_tools(_AGENT, model, _genai_tool)


def openllmetry() -> dict[str, Any]:
    """Numbered attributes under gen_ai.prompt and gen_ai.completion."""

    def numbered(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for place, message in enumerate(messages):
            fields[f"{prefix}.{place}.role"] = message["role"]
            if message.get("content"):
                fields[f"{prefix}.{place}.content"] = message["content"]
            for turn, call in enumerate(message.get("tool_calls", ())):
                fields[f"{prefix}.{place}.tool_calls.{turn}.id"] = call["id"]
                fields |= {f"{prefix}.{place}.tool_calls.{turn}.{key}": text for key, text in call["function"].items()}
        return fields

    def model(number: int, asked: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
        fields = {"llm.request.type": "chat", "gen_ai.response.model": MODEL, "llm.usage.total_tokens": 100}
        talk = numbered("gen_ai.prompt", asked) | numbered("gen_ai.completion", [answer])
        return otlp_span(number, fields | talk)

    def tool(name: str, given: Mapping[str, Any], made: str | None) -> dict[str, Any]:
        fields = {"traceloop.span.kind": "tool", "traceloop.entity.name": name}
        fields["traceloop.entity.input"] = json.dumps(given)
        return fields | ({"traceloop.entity.output": made} if made else {})

    return _with_tools({"traceloop.span.kind": "agent", "traceloop.entity.name": "booker"}, model, tool)


def openinference() -> dict[str, Any]:
    """Numbered attributes under llm.input_messages and llm.output_messages."""

    def numbered(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for place, message in enumerate(messages):
            begin = f"{prefix}.{place}.message"
            fields[f"{begin}.role"] = message["role"]
            if message["role"] == "user":
                fields[f"{begin}.contents.0.message_content.type"] = "text"
                fields[f"{begin}.contents.0.message_content.text"] = message["content"]
            elif message.get("content"):
                fields[f"{begin}.content"] = message["content"]
            for turn, call in enumerate(message.get("tool_calls", ())):
                inner = f"{begin}.tool_calls.{turn}.tool_call"
                fields[f"{inner}.id"] = call["id"]
                fields |= {f"{inner}.function.{key}": text for key, text in call["function"].items()}
        return fields

    def model(number: int, asked: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
        fields = {"openinference.span.kind": "LLM", "llm.model_name": MODEL, "llm.token_count.total": 100}
        talk = numbered("llm.input_messages", asked) | numbered("llm.output_messages", [answer])
        return otlp_span(number, fields | talk)

    def tool(name: str, given: Mapping[str, Any], made: str | None) -> dict[str, Any]:
        fields = {"openinference.span.kind": "TOOL", "tool.name": name, "input.value": json.dumps(given)}
        return fields | ({"output.value": made} if made else {})

    return _with_tools({"openinference.span.kind": "AGENT", "agent.name": "booker"}, model, tool)


def models_only() -> dict[str, Any]:
    """A trace that has spans of the models alone: the tools are in what they were told."""
    return otlp_file([otlp_span(n, _CHAT | _genai(*turn)) for n, turn in enumerate(_TURNS)])


def _spans_of(file: Mapping[str, Any]) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = file["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return spans


def _plain_fields(span: Mapping[str, Any]) -> dict[str, Any]:
    values = ((each["key"], *each["value"].items()) for each in span["attributes"])
    return {key: int(value) if form == "intValue" else value for key, (form, value) in values}


def tempo() -> dict[str, Any]:
    """The answer of Tempo's API."""
    (resource,) = otlp_messages()["resourceSpans"]
    return {"batches": [{"resource": resource["resource"], "instrumentationLibrarySpans": resource["scopeSpans"]}]}


def jaeger() -> dict[str, Any]:
    """The answer of Jaeger's API."""

    def tags(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        kinds = {int: "int64", bool: "bool"}
        return [{"key": key, "type": kinds.get(type(value), "string"), "value": value} for key, value in fields.items()]

    def moved(span: dict[str, Any]) -> dict[str, Any]:
        begin, end = (int(span[name]) // 1_000 for name in ("startTimeUnixNano", "endTimeUnixNano"))
        fields, parent = _plain_fields(span), span["parentSpanId"]
        if "status" in span:
            fields |= {"otel.status_code": "ERROR", "error": True, "otel.status_description": span["status"]["message"]}
        references = [{"refType": "CHILD_OF", "traceID": "t1", "spanID": parent}] if parent else []
        return {"traceID": "t1", "spanID": span["spanId"], "operationName": span["name"], "references": references} | {
            "startTime": begin,
            "duration": end - begin,
            "tags": tags(fields),
            "logs": [],
            "processID": "p1",
        }

    spans = [moved(span) for span in _spans_of(otlp_messages())]
    processes = {"p1": {"serviceName": "bookings", "tags": []}}
    return {"data": [{"traceID": "t1", "spans": spans, "processes": processes, "warnings": None}], "total": 0}


def _in_context(span: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": span["name"],
        "context": {"trace_id": "t1", "span_id": span["spanId"]},
        "parent_id": span["parentSpanId"] or None,
        "start_time": _time(int(span["startTimeUnixNano"]) // 10**9 - int(_BEGIN.timestamp())),
        "end_time": _time(int(span["endTimeUnixNano"]) // 10**9 - int(_BEGIN.timestamp())),
        "attributes": _plain_fields(span),
        "events": [],
    }


def phoenix() -> list[dict[str, Any]]:
    """Spans of Phoenix: their kind and status are no attributes."""
    spans = []
    for span in _spans_of(openinference()):
        made, status = _in_context(span), span.get("status")
        made["span_kind"] = made["attributes"].pop("openinference.span.kind")
        message = status["message"] if status else ""
        spans.append({"id": "x", "status_code": "ERROR" if status else "OK", "status_message": message} | made)
    return spans


def console() -> list[dict[str, Any]]:
    """Spans as the console exporter of OpenTelemetry's SDK prints them."""
    spans = []
    for span in _spans_of(otlp_messages()):
        message = span.get("status", {}).get("message")
        status = {"status_code": "ERROR", "description": message} if message else {"status_code": "UNSET"}
        resource = {"attributes": {"service.name": "bookings"}, "schema_url": ""}
        spans.append(_in_context(span) | {"kind": "SpanKind.INTERNAL", "status": status, "resource": resource})
    return spans


def spans_alone() -> list[dict[str, Any]]:
    """Spans of OTLP without the objects around them."""
    return _spans_of(otlp_messages())


def nested_phoenix() -> dict[str, Any]:
    """Spans of Phoenix as one page of its API, with nested attributes."""
    spans = phoenix()
    for span in spans:
        tree: dict[str, Any] = {}
        for name, value in span["attributes"].items():
            *path, last = name.split(".")
            place = tree
            for key in path:
                place = place.setdefault(key, {})
            place[last] = value
        span["attributes"] = _listed(tree)
    return {"data": spans, "next_cursor": None}


def _listed(tree: Any) -> Any:
    """Objects whose keys are places, as lists."""
    if not isinstance(tree, dict):
        return tree
    inner = {key: _listed(value) for key, value in tree.items()}
    return list(inner.values()) if all(key.isdecimal() for key in inner) else inner


def downloaded_langfuse() -> dict[str, Any]:
    """The download of a trace's page: its own observations have no texts, and all texts are JSON."""
    trace = langfuse()
    observations = [
        {name: json.dumps(value) if name in ("input", "output") else value for name, value in each.items()}
        | {"parentObservationId": None, "totalCost": 0, "totalUsage": 0}
        for each in trace.pop("observations")
    ]
    empty = [{**each, "input": None, "output": None} for each in observations]
    trace |= {"output": json.dumps(json.dumps(trace["output"])), "totalCost": 0, "observations": empty}
    return {"trace": trace, "observations": observations}


def langfuse() -> dict[str, Any]:
    """A trace with its observations."""

    def observation(number: int, kind: str, **fields: Any) -> dict[str, Any]:
        times = {"startTime": _time(number), "endTime": _time(number + 1)}
        return {"id": f"s{number}", "traceId": "t1", "type": kind, "parentObservationId": None} | times | fields

    def model(number: int, turn: int) -> dict[str, Any]:
        asked, answer = _TURNS[turn]
        usage = {"usageDetails": {"input": 90, "output": 10, "total": 100}}
        return observation(number, "GENERATION", name="chat", model=MODEL, input=asked, output=answer, **usage)

    observations = [
        model(1, 0),
        observation(2, "TOOL", name="search", input=SEARCH, output=FOUND),
        model(3, 1),
        observation(4, "TOOL", name="book", input=BOOK, level="ERROR", statusMessage=GONE),
        model(5, 2),
    ]
    for each in observations:
        del each["parentObservationId"]
    trace = {"id": "t1", "name": "booking", "timestamp": _time(0), "input": QUESTION, "output": ANSWER}
    return trace | {"sessionId": "u1", "observations": observations}


def langsmith() -> list[dict[str, Any]]:
    """Runs, as a list."""

    def run(number: int, kind: str, **fields: Any) -> dict[str, Any]:
        times = {"start_time": _time(number).removesuffix("Z"), "end_time": _time(number + 1).removesuffix("Z")}
        return {"id": f"s{number}", "trace_id": "t1", "parent_run_id": "s0", "run_type": kind} | times | fields

    def model(number: int, turn: int) -> dict[str, Any]:
        asked, answer = _TURNS[turn]
        kinds = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}
        given = [
            {"lc": 1, "type": "constructor", "id": ["langchain", kinds[message["role"]]]}
            | {"kwargs": {"type": "human" if message["role"] == "user" else message["role"]} | message}
            for message in asked
        ]
        made = {"generations": [[{"message": {"kwargs": answer}}]]}
        extra = {"metadata": {"ls_model_name": MODEL}}
        return run(
            number, "llm", name="chat", inputs={"messages": [given]}, outputs=made, extra=extra, total_tokens=100
        )

    root = run(0, "chain", name="booker", inputs={"input": QUESTION}, outputs={"output": ANSWER})
    return [
        root | {"parent_run_id": None},
        model(1, 0),
        run(2, "tool", name="search", inputs=SEARCH, outputs={"output": FOUND}),
        model(3, 1),
        run(4, "tool", name="book", inputs=BOOK, outputs=None, error=GONE),
        model(5, 2),
    ]


def mlflow() -> dict[str, Any]:
    """One trace, with its attributes as texts of JSON."""

    def span(number: int, kind: str, name: str, given: Any, made: Any, **more: Any) -> dict[str, Any]:
        fields = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": made}
        fields |= {"mlflow.chat.tokenUsage": {"total_tokens": 100}} if kind == "CHAT_MODEL" else {}
        return {
            "span_id": f"s{number}",
            "parent_span_id": "s0" if number else None,
            "name": name,
            "start_time_unix_nano": _nano(number),
            "end_time_unix_nano": _nano(number + 1),
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {key: json.dumps(value) for key, value in fields.items() if value is not None},
        } | more

    def model(number: int, turn: int) -> dict[str, Any]:
        asked, answer = _TURNS[turn]
        made = {"choices": [{"index": 0, "message": answer}]}
        return span(number, "CHAT_MODEL", "chat", {"model": MODEL, "messages": asked}, made)

    failed = {"status": {"code": "STATUS_CODE_ERROR", "message": GONE}}
    spans = [
        span(0, "AGENT", "booker", {"question": QUESTION}, ANSWER),
        model(1, 0),
        span(2, "TOOL", "search", SEARCH, FOUND),
        model(3, 1),
        span(4, "TOOL", "book", BOOK, None, **failed),
        model(5, 2),
    ]
    return {"info": {"trace_id": "t1", "state": "OK"}, "data": {"spans": spans}}


def atif() -> dict[str, Any]:
    """A trajectory."""

    def step(number: int, source: str, message: str, *calls: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        made = {"step_id": number, "timestamp": _time(number), "source": source, "message": message} | more
        called = [
            {"tool_call_id": call["id"], "function_name": call["function"]["name"]}
            | {"arguments": json.loads(call["function"]["arguments"])}
            for call in calls
        ]
        return made | ({"tool_calls": called} if calls else {})

    def observed(call: int, content: str, **more: Any) -> dict[str, Any]:
        return {"observation": {"results": [{"source_call_id": f"call-{call}", "content": content} | more]}}

    used = {"metrics": {"prompt_tokens": 90, "completion_tokens": 10, "cost_usd": 0.001}}
    return {
        "schema_version": "ATIF-v1.5",
        "session_id": "t1",
        "agent": {"name": "booker", "version": "1", "model_name": MODEL},
        "steps": [
            step(1, "system", SYSTEM),
            step(2, "user", QUESTION),
            step(3, "agent", "", _call("search", SEARCH, 1), **used, **observed(1, FOUND)),
            step(4, "agent", "", _call("book", BOOK, 2), **used, **observed(2, GONE, is_error=True)),
            step(5, "agent", ANSWER, **used),
        ],
    }


def claude_code() -> list[dict[str, Any]]:
    """Lines of a session; the system's prompt is not among them."""

    def line(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        message = {"role": kind, "content": content}
        if kind == "assistant":
            message |= {"id": f"msg-{number}", "model": MODEL, "usage": {"input_tokens": 90, "output_tokens": 10}}
        about = {"uuid": f"s{number}", "sessionId": "t1", "timestamp": _time(number), "isSidechain": False}
        return {"type": kind, "message": message} | about | more

    def used(number: int, name: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "tool_use", "id": f"call-{number}", "name": name, "input": dict(given)},
        ]

    def result(number: int, content: str, **more: Any) -> list[dict[str, Any]]:
        return [{"type": "tool_result", "tool_use_id": f"call-{number}", "content": content} | more]

    return [
        {"type": "summary", "summary": "Booking", "leafUuid": "s9"},
        line(1, "user", QUESTION),
        line(2, "assistant", used(1, "search", SEARCH)),
        line(3, "user", result(1, FOUND)),
        line(4, "assistant", used(2, "book", BOOK)),
        line(5, "user", result(2, GONE, is_error=True)),
        line(6, "assistant", [{"type": "text", "text": ANSWER}]),
    ]


def inspect_sample() -> dict[str, Any]:
    """One sample."""
    messages = [
        {key: value for key, value in message.items() if key != "tool_calls" and value is not None}
        | {
            "tool_calls": [
                {"id": call["id"], "function": call["function"]["name"], "type": "function"}
                | {"arguments": json.loads(call["function"]["arguments"])}
                for call in message.get("tool_calls", ())
            ]
        }
        for message in TALK
    ]
    for message in messages:
        if message.pop("is_error", None):
            message["error"] = {"type": "unknown", "message": GONE}
    sample = {"id": "rooms", "epoch": 2, "uuid": "t1", "input": QUESTION, "target": "an apology"}
    output = {"model": MODEL, "choices": [{"message": messages[-1], "stop_reason": "stop"}], "completion": ANSWER}
    scores = {"judge": {"value": "C", "answer": ANSWER}}
    return sample | {"messages": messages, "output": output, "scores": scores, "metadata": {}}


INSPECT_EVAL = {"task": "booking", "model": MODEL, "created": _time(0), "dataset": {"name": "rooms"}}


def inspect_json() -> dict[str, Any]:
    """A log in one document."""
    return {"version": 2, "status": "success", "eval": INSPECT_EVAL, "samples": [inspect_sample()]}


def inspect_archive(pack: Callable[[bytes], bytes] | None = None) -> bytes:
    """A log as a zip. pack: zstd, under the number that zip has for it; stored by default."""
    members = {
        "header.json": {"version": 2, "status": "success", "eval": INSPECT_EVAL},
        "samples/rooms_epoch_2.json": inspect_sample(),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            text = json.dumps(content).encode()
            archive.writestr(name, pack(text) if pack else text)
        if pack is None:
            return _closed(file, archive)
        for member, content in zip(archive.filelist, members.values(), strict=True):
            member.compress_type, member.file_size = 93, len(json.dumps(content).encode())
    return file.getvalue()


def _closed(file: io.BytesIO, archive: zipfile.ZipFile) -> bytes:
    archive.close()
    return file.getvalue()


def codex() -> list[dict[str, Any]]:
    """Lines of a rollout: messages and calls, the same as events, and the total of the session's tokens."""

    def line(second: int, kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": _time(second), "type": kind, "payload": payload}

    def message(second: int, role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return line(second, "response_item", type="message", role=role, content=[{"type": kind, "text": text}])

    def called(second: int, number: int, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        fields = {"type": "function_call", "call_id": f"call-{number}", "name": name, "arguments": json.dumps(given)}
        return line(second, "response_item", **fields)

    def result(second: int, number: int, output: str, code: int) -> dict[str, Any]:
        wrapped = json.dumps({"output": output, "metadata": {"exit_code": code, "duration_seconds": 0.5}})
        fields = {"type": "function_call_output", "call_id": f"call-{number}", "output": wrapped}
        return line(second, "response_item", **fields)

    def counted(total: int) -> dict[str, Any]:
        return line(8, "event_msg", type="token_count", info={"total_token_usage": {"total_tokens": total}})

    return [
        line(0, "session_meta", id="t1", cwd="/home/anna", cli_version="0.98.0"),
        message(0, "developer", "Ask before you write outside of the folder."),
        message(0, "user", "<environment_context><cwd>/home/anna</cwd></environment_context>"),
        message(1, "user", QUESTION),
        line(1, "event_msg", type="user_message", message=QUESTION),
        line(1, "turn_context", model=MODEL, cwd="/home/anna"),
        line(2, "response_item", type="reasoning", summary=[], encrypted_content="x"),
        called(2, 1, "search", SEARCH),
        counted(100),
        counted(100),
        result(3, 1, FOUND, 0),
        called(4, 2, "book", BOOK),
        counted(200),
        result(5, 2, GONE, 1),
        line(6, "event_msg", type="agent_message", message=ANSWER),
        message(6, "assistant", ANSWER),
        counted(300),
    ]


def swe_agent() -> dict[str, Any]:
    """A trajectory of SWE-agent by function calls; a result does not say that it is an error."""

    def step(action: str, observation: str, thought: str = "") -> dict[str, Any]:
        return {"action": action, "observation": observation, "response": thought, "thought": thought, "state": {}}

    history = [
        {**each, "agent": "main"} | ({"tool_call_ids": [each["tool_call_id"]]} if each["role"] == "tool" else {})
        for each in TALK
    ]
    config = {"agent": {"model": {"name": MODEL}}, "problem_statement": {"id": "t1", "type": "text"}}
    return {
        "environment": "main",
        "trajectory": [step("search 2", FOUND), step("book 7", GONE), step("", "", ANSWER)],
        "history": [{"role": "user", "content": "An example.", "is_demo": True}, *history],
        "info": {
            "exit_status": "submitted",
            "submission": ANSWER,
            "model_stats": {"tokens_sent": 270, "tokens_received": 30},
        },
        "replay_config": json.dumps(config),
    }


def mini_swe_agent() -> dict[str, Any]:
    """A trajectory of mini-SWE-agent, whose one tool is bash."""

    def done(command: str) -> dict[str, Any]:
        return {"role": "assistant", "content": f"Next:\n\n```bash\n{command}\n```", "extra": {"actions": []}}

    return {
        "info": {
            "model_stats": {"instance_cost": 0.05, "api_calls": 2},
            "config": {"model": {"model_name": MODEL}},
            "exit_status": "Submitted",
            "submission": "diff --git",
        },
        "messages": [
            *ASKED,
            done("ls"),
            {"role": "user", "content": "a.py"},
            done("cat a.py"),
            {"role": "user", "content": "x = 1"},
            {"role": "exit", "content": "diff --git"},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
    }
