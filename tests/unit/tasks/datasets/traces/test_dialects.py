"""Traces as other systems write them, and the value that each number and text of their rows has to have."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.json_values import canonical_json
from gradebook.tasks.datasets.discovery import dataset_files, read_rows
from gradebook.tasks.datasets.row_parser import RowFitter, steps_of_messages
from tests.support.agent_traces import otlp_attributes, otlp_file, otlp_span, otlp_value
from tests.support.law_over import law_over

Messages = list[dict[str, Any]]
_Q = "Which gate?"
_ASKED: Messages = [{"role": "user", "content": _Q}]
_TITLE: Messages = [{"role": "user", "content": "Find a title."}]
_DEFINITION = {"type": "function", "function": {"name": "gate_of", "description": "Finds it.", "parameters": {}}}
_CALL = {"id": "c1", "type": "function", "function": {"name": "gate_of", "arguments": '{"flight": 7}'}}
_TOOL = ("gate_of", '{"flight":7}', "B4", None)


def _rows(folder: Path, content: Any) -> list[dict[str, Any]]:
    path = folder / "run.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    rows = [row.content for row in read_rows(dataset_files(str(path)), {})]
    assert all(isinstance(row, dict) for row in rows), rows
    return [row for row in rows if isinstance(row, dict)]


def _only(folder: Path, content: Any) -> dict[str, Any]:
    (row,) = _rows(folder, content)
    return row


def _sum(row: Mapping[str, Any], measure: str) -> float:
    return sum(step.get(measure) or 0 for step in row["steps"])


def _chat(number: int, asked: Messages, text: str | None, *calls: Any, **more: Any) -> dict[str, Any]:
    """A model's span. more: parent, and attributes with `_` for `.`."""
    parts = [{"type": "text", "content": text}] if text else []
    parts += [{"type": "tool_call", "id": each["id"], **each["function"]} for each in calls]
    fields: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    fields["gen_ai.input.messages"] = json.dumps(asked)
    fields["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": parts}])
    return _span(number, fields, **more)


def _span(number: int, fields: Mapping[str, Any], parent: int | None = None, tokens: int | None = None) -> Any:
    usage = {} if tokens is None else {"gen_ai.usage.input_tokens": tokens - 1, "gen_ai.usage.output_tokens": 1}
    return otlp_span(number, {**fields, **usage}) | {"parentSpanId": "" if parent is None else f"s{parent}"}


_INVOKE = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
_EXECUTE = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "gate_of"}


def _observation(number: int, kind: str, given: Any, made: Any, **more: Any) -> dict[str, Any]:
    moments = {"startTime": f"2026-01-01T10:00:0{number}Z", "endTime": f"2026-01-01T10:00:0{number + 1}Z"}
    unknown = {"totalUsage": 0, "totalCost": 0, "parentObservationId": None, "level": "DEFAULT"}
    about = {"id": f"o{number}", "traceId": "t", "type": kind, "name": kind.lower(), "input": given, "output": made}
    return moments | unknown | about | more


def _langfuse(*observations: dict[str, Any], **more: Any) -> dict[str, Any]:
    trace = {"id": "t", "name": "run", "timestamp": "2026-01-01T10:00:00Z", "input": None, "output": None}
    return trace | more | {"observations": list(observations)}


def _langgraph() -> dict[str, Any]:
    """Calls in additional arguments, definitions as messages, the tool as a span of no kind with Python's arguments."""
    called = {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [_CALL], "refusal": None}}
    defined = {"role": "tool", "content": _DEFINITION}
    also = {"role": "tool", "content": {"name": "gate_of", "description": "", "input_schema": {}}}  # as for Anthropic
    done = {"role": "tool", "content": "B4", "tool_call_id": "c1"}
    message = {"type": "tool", "name": "gate_of", "content": "B4", "tool_call_id": "c1", "status": "success"}
    state = {"messages": [{"type": "human", "content": _Q}, {"type": "ai", "content": "Gate B4."}]}
    return _langfuse(
        _observation(1, "SPAN", None, None, name="LangGraph"),
        _observation(2, "GENERATION", [*_ASKED, defined, also], called, totalUsage=75, totalCost=0.25, model="m"),
        _observation(3, "SPAN", "{'flight': 7}", message, name="gate_of"),
        _observation(
            4,
            "GENERATION",
            [*_ASKED, called, done, defined],
            {"role": "assistant", "content": "Gate B4.", "additional_kwargs": {}},
            usageDetails={"input": 100, "output": 59, "total": 159},
            costDetails={"total": 0.5},
            model="m",
        ),
        output=json.dumps(json.dumps(state)),
    )


def _koog() -> dict[str, Any]:
    """Calls in messages of the role of a tool, results without ids, kinds in the attributes of OpenTelemetry."""
    called = {"role": "tool", "content": [_CALL]}
    done = {"role": "tool", "content": "B4"}
    about = {"attributes": {"gen_ai.tool.name": "gate_of"}}
    return _langfuse(
        _observation(1, "AGENT", None, None),
        _observation(2, "GENERATION", _ASKED, [{"role": "assistant", "content": json.dumps([_CALL])}], totalUsage=75)
        | {"totalCost": 0.25},
        _observation(3, "SPAN", {"flight": 7}, "B4", name="tool.gate_of", metadata=about),
        _observation(
            4, "GENERATION", [*_ASKED, called, done], [{"role": "assistant", "content": "Gate B4."}], totalUsage=159
        )
        | {"totalCost": 0.5},
    )


def _responses() -> dict[str, Any]:
    """Objects of OpenAI's Responses, without a span of the tool."""
    call = {"type": "function_call", "name": "gate_of", "arguments": '{"flight": 7}', "call_id": "c1", "id": "f1"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Gate B4."}]}
    done = {"type": "function_call_output", "call_id": "c1", "output": "B4"}
    response = {"object": "response", "status": "completed", "usage": {"total_tokens": 75}}
    return _langfuse(
        _observation(1, "AGENT", None, None),
        _observation(2, "GENERATION", _ASKED, response | {"output": [{"type": "reasoning", "summary": []}, call]}),
        _observation(
            3, "GENERATION", [*_ASKED, call, done], response | {"output": [said]}, totalUsage=159, totalCost=0.75
        ),
    )


def _gemini() -> dict[str, Any]:
    """Requests and responses of Gemini, as JSON; its calls have no ids."""
    asked = {"role": "user", "parts": [{"text": _Q}]}
    called = {"role": "model", "parts": [{"function_call": {"name": "gate_of", "args": {"flight": 7}}}]}
    done = {"role": "user", "parts": [{"function_response": {"name": "gate_of", "response": "B4"}}]}
    said = {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "Gate B4."}]}

    def generated(number: int, contents: Any, content: Any, tokens: int) -> dict[str, Any]:
        made = {"candidates": [{"content": content}], "usage_metadata": {"total_token_count": tokens}}
        request = {"model": "g", "contents": contents}
        return _observation(number, "GENERATION", json.dumps(request), json.dumps(json.dumps(made)), totalCost=0.375)

    return _langfuse(generated(1, [asked], called, 75), generated(2, [asked, called, done], said, 159))


def _adk() -> dict[str, Any]:
    """Google's ADK: requests in attributes of its own, and below each a span that repeats its usage."""
    asked = {"role": "user", "parts": [{"text": _Q}]}
    called = {"role": "model", "parts": [{"function_call": {"name": "gate_of", "args": {"flight": 7}}}]}
    done = {"role": "user", "parts": [{"function_response": {"name": "gate_of", "response": {"result": "B4"}}}]}
    said = {"role": "model", "parts": [{"text": "Gate B4."}]}

    def call(number: int, contents: Any, content: Any, tokens: int) -> list[Any]:
        fields = {
            "gcp.vertex.agent.llm_request": json.dumps({"model": "m", "contents": contents}),
            "gcp.vertex.agent.llm_response": json.dumps({"content": content, "finish_reason": "STOP"}),
            "gen_ai.request.model": "m",
        }
        inner = {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "m"}
        return [_span(number, fields, 1, tokens), _span(number + 1, inner, number, tokens)]

    empty = {"gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"}
    tool = {"gcp.vertex.agent.tool_call_args": '{"flight": 7}', "gcp.vertex.agent.tool_response": "B4"}
    return otlp_file(
        [
            _span(0, {}),
            _span(1, _INVOKE, 0),
            *call(2, [asked], called, 75),
            _span(4, _EXECUTE | empty | tool, 1),
            *call(5, [asked, called, done], said, 159),
        ]
    )


def _langsmith() -> list[dict[str, Any]]:
    """Usage in the outputs, and messages whose class says their role."""

    def run(number: int, kind: str, given: Any, made: Any, **more: Any) -> dict[str, Any]:
        about = {"id": f"r{number}", "trace_id": "t", "parent_run_id": "r0" if number else None, "run_type": kind}
        return (
            about | {"name": kind, "start_time": f"2026-01-01T10:00:0{number}", "inputs": given, "outputs": made} | more
        )

    def message(kind: str, **fields: Any) -> dict[str, Any]:
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", kind], "kwargs": fields}

    asked = message("HumanMessage", content=_Q)
    usage = {"usage_metadata": {"input_tokens": 70, "output_tokens": 5, "total_tokens": 75}}
    called = message("AIMessageChunk", content="", additional_kwargs={"tool_calls": [_CALL]}, **usage)
    done = message("ToolMessage", content="B4", tool_call_id="c1")
    gave = {"output": message("ToolMessage", content="B4", status="success")}
    answer = {"content": "Gate B4.", "role": "assistant", "usage_metadata": {"input_tokens": 150, "output_tokens": 9}}
    return [
        run(0, "chain", {"input": _Q}, {"output": "Gate B4."}, total_tokens=234, total_cost=0.75),
        run(1, "llm", {"messages": [[asked]]}, {"generations": [[{"message": called}]], "llm_output": None})
        | {"total_cost": 0.25},
        run(2, "tool", {"input": "{'flight': 7}"}, gave, name="gate_of"),
        run(3, "llm", {"messages": [[asked, called, done]]}, answer, total_cost=0.5),
    ]


def _mlflow() -> dict[str, Any]:
    """Requests in the arguments of the agent's function, and responses of OpenAI."""

    def span(number: int, kind: str, given: Any, made: Any, tokens: int | None = None) -> dict[str, Any]:
        fields = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": made, "model": "m"}
        fields |= {"mlflow.chat.tokenUsage": {"input_tokens": tokens - 1, "output_tokens": 1}} if tokens else {}
        about = {"span_id": f"s{number}", "parent_span_id": "s0" if number else None, "name": kind.lower()}
        texts = {"attributes": {key: json.dumps(value) for key, value in fields.items()}}
        return about | {"start_time_unix_nano": (1767261600 + number) * 10**9, "status": {"code": "OK"}} | texts

    called = {"type": "function_call", "name": "gate_of", "arguments": '{"flight": 7}', "call_id": "c1"}
    done = {"type": "function_call_output", "call_id": "c1", "output": "B4"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Gate B4."}]}
    response = {"object": "response", "output": [said]}
    spans = [
        span(0, "AGENT", {"request": {"input": _ASKED}}, response, 234),
        span(1, "CHAT_MODEL", {"input": _Q}, {"object": "response", "output": [called]}, 75),
        span(2, "CHAT_MODEL", {"input": [*_ASKED, called, done]}, response, 159),
    ]
    return {"info": {"trace_id": "t"}, "data": {"spans": spans}}


_RUNS = {
    "LangGraph in Langfuse": (_langgraph, 0.75),
    "Koog in Langfuse": (_koog, 0.75),
    "OpenAI's Responses in Langfuse": (_responses, 0.75),
    "Gemini in Langfuse": (_gemini, 0.75),
    "Google's ADK": (_adk, 0),
    "LangSmith": (_langsmith, 0.75),
    "Responses in MLflow": (_mlflow, 0),
}


@pytest.mark.parametrize("name", _RUNS)
def test_a_run_with_one_call_is_read_whole(name: str, tmp_path: Path) -> None:
    make, cost_usd = _RUNS[name]
    row = _only(tmp_path, make())

    fitted = RowFitter({}).fit(row, "jsonl")
    assert not isinstance(fitted, str), fitted
    tools = [(step.name, step.input, step.output, step.error) for step in fitted.steps or () if step.kind == "tool"]
    assert (row["prompt"], row["output"], tools) == (_ASKED, "Gate B4.", [_TOOL])
    assert (_sum(row, "tokens"), _sum(row, "cost_usd")) == (75 + 159, cost_usd)
    assert "usage_differences" not in row["metadata"]


@pytest.mark.parametrize(
    ("spans", "tokens", "differences"),
    [
        ([_span(0, _INVOKE, tokens=110), _chat(1, _ASKED, "Hi", parent=0, tokens=110)], 110, []),
        ([_span(0, _INVOKE, tokens=110)], 110, []),
        (  # The agent's sum forgets a model, or has one that is not in the file: the lowest spans count.
            [
                _span(0, _INVOKE, tokens=130),
                _chat(1, _ASKED, "Hi", parent=0, tokens=110),
                _chat(2, _ASKED, "Ho", parent=0, tokens=40),
            ],
            150,
            [{"span_id": "s0", "measure": "tokens", "stated": 130, "below": 150}],
        ),
        (  # agent > model > the same request by another library: three times
            [
                _span(0, _INVOKE, tokens=110),
                _chat(1, _ASKED, "Hi", parent=0, tokens=110),
                _chat(2, _ASKED, "Hi", parent=1, tokens=110),
            ],
            110,
            [],
        ),
        (  # What a tool or an agent below a model uses is not that model's request.
            [
                _chat(0, _ASKED, "Hi", tokens=50),
                _span(1, _EXECUTE, parent=0),
                _chat(2, _ASKED, "Ho", parent=1, tokens=40),
            ],
            90,
            [],
        ),
    ],
    ids=["agent and model", "agent alone", "another sum", "nested models", "an agent as a tool"],
)
def test_usage_counts_once_at_the_lowest_spans(
    spans: list[Any], tokens: int, differences: list[Any], tmp_path: Path
) -> None:
    row = _only(tmp_path, otlp_file(spans))
    assert _sum(row, "tokens") == tokens
    assert row["metadata"].get("usage_differences", []) == differences


@pytest.mark.parametrize(
    ("spans", "answer"),
    [
        ([_chat(0, _ASKED, "Looking."), _span(1, _EXECUTE), _chat(2, _ASKED, "Gate B4.")], "Gate B4."),
        (  # models beside the agent, which make titles, and an agent that is called as a tool
            [
                _chat(0, _TITLE, "A question"),
                _span(1, _INVOKE),
                _chat(2, _ASKED, "Gate B4.", parent=1),
                _span(3, _EXECUTE, parent=1),
                _span(4, _INVOKE, parent=3),
                _chat(5, _TITLE, "It is B4 today.", parent=4),
                _chat(6, _TITLE, "A question about gates"),
            ],
            "Gate B4.",
        ),
        ([_span(0, _INVOKE), _chat(1, _ASKED, None, _CALL, parent=0), _chat(2, _TITLE, "A question")], ""),
        ([_span(0, _INVOKE), _chat(1, _ASKED, "Gate B4.")], "Gate B4."),
        (  # one agent hands over to another
            [
                _span(0, _INVOKE),
                _chat(1, _ASKED, "Wait.", parent=0),
                _span(2, _INVOKE, parent=0),
                _chat(3, _ASKED, "Gate B4.", parent=2),
            ],
            "Gate B4.",
        ),
        ([_span(0, _INVOKE | {"output.value": "Gate B4."}), _chat(1, _ASKED, "B4", parent=0)], "Gate B4."),
        ([_span(0, _INVOKE | {"output.value": "{'a': Agent()}"}), _chat(1, _ASKED, "B4", parent=0)], "B4"),
        ([_span(0, {"openinference.span.kind": "LLM", "output.value": '{"gate": "B4"}'})], '{"gate": "B4"}'),
    ],
    ids=[
        "no root",
        "title and tool",
        "no answer",
        "agent without spans",
        "handover",
        "text of the agent",
        "text of an object",
        "structured answer",
    ],
)
def test_the_answer_is_the_last_text_of_the_outermost_agent_or_model(
    spans: list[Any], answer: str, tmp_path: Path
) -> None:
    row = _only(tmp_path, otlp_file(spans))
    assert row["output"] == answer
    assert row["prompt"] in (_ASKED, None)


def _failed_otlp(fields: Mapping[str, Any], message: str, *events: Mapping[str, Any]) -> dict[str, Any]:
    listed = [{"name": "exception", "attributes": otlp_attributes(each)} for each in events]
    return otlp_file([_span(0, _EXECUTE | fields) | {"status": {"code": 2, "message": message}, "events": listed}])


def _failed_mlflow() -> dict[str, Any]:
    document = _mlflow()
    (span, *_) = document["data"]["spans"]
    event = {"name": "exception", "attributes": {"exception.type": "E", "exception.message": "no such flight"}}
    span |= {"status": {"code": "STATUS_CODE_ERROR", "message": ""}, "events": [event]}
    return document


@pytest.mark.parametrize(
    "document",
    [
        _failed_otlp({}, "no such flight", {"exception.message": "another"}),
        _failed_otlp({}, "", {"exception.type": "E", "exception.message": "no such flight"}),
        _failed_otlp({"error.type": "E", "error.message": "no such flight"}, ""),
        _failed_mlflow(),
        _langfuse(_observation(1, "TOOL", {}, "no such flight", level="ERROR")),
        _langfuse(_observation(1, "SPAN", {}, {"type": "tool", "content": "no such flight", "status": "error"})),
    ],
    ids=["status", "event", "attribute", "MLflow's event", "Langfuse's output", "LangChain's message"],
)
def test_the_error_of_a_step_is_the_text_of_its_exception(document: Any, tmp_path: Path) -> None:
    row = _only(tmp_path, document)
    assert [step["error"] for step in row["steps"] if "error" in step] == ["no such flight"]


def test_a_case_is_the_question_whatever_a_run_did(tmp_path: Path) -> None:
    def run(trace: str, call_id: str, found: str) -> Messages:
        call = _CALL | {"id": call_id}
        done: Messages = [{"role": "assistant", "tool_calls": [call]}]
        done += [{"role": "tool", "tool_call_id": call_id, "content": found}]
        earlier = [*_ASKED, *done, {"role": "assistant", "content": "B4."}, {"role": "user", "content": "Sure?"}]
        # The second run's first span is lost, and the last one asks with a history of an earlier turn.
        asked = [_ASKED, [*_ASKED, *done], earlier]
        return [_chat(n, each, "Yes.") | {"traceId": f"{trace}{n}"} for n, each in enumerate(asked)]

    rows = _rows(tmp_path, otlp_file([*run("a", "c1", "B4"), *run("b", "c2", "C9")]))
    cases = [row["case_id"] for row in rows]
    assert cases[:3] == cases[3:]
    assert cases[0] == cases[1] != cases[2]
    assert rows[1]["prompt"] == _ASKED
    assert [(step["kind"], step["output"]) for step in rows[1]["steps"]] == [
        ("model", ""),
        ("tool", "B4"),
        ("model", "Yes."),
    ]


def test_runs_without_a_question_are_cases_of_their_own(tmp_path: Path) -> None:
    rows = _rows(tmp_path, otlp_file([_span(0, _INVOKE) | {"traceId": trace} for trace in ("a", "b")]))
    assert [(row["case_id"], row["prompt"]) for row in rows] == [("trace-a", None), ("trace-b", None)]


def test_traces_of_langfuse_may_lie_apart_from_their_observations(tmp_path: Path) -> None:
    traces = [{"id": trace, "output": f"Gate {trace}."} for trace in ("a", "b")]
    observations = [_observation(1, "GENERATION", _ASKED, "Hm.", traceId=trace) for trace in ("b", "a", "b")]
    observations[2] |= {"id": "o2", "type": "AGENT", "input": None, "output": None}
    rows = _rows(tmp_path, {"traces": traces, "observations": observations})
    assert [(row["metadata"]["trace_id"], row["output"], row["prompt"]) for row in rows] == [
        ("a", "Gate a.", _ASKED),
        ("b", "Gate b.", _ASKED),
    ]


@pytest.mark.parametrize(
    ("calls", "results", "outputs"),
    [
        ([{"id": "a"}, {"id": "b"}], [{"tool_call_id": "b"}, {"tool_call_id": "a"}], ["2", "1"]),
        ([{}, {}], [{"name": "f"}, {"name": "f"}], ["1", "2"]),  # of Gemini
        ([{"id": "a"}, {"id": "b"}], [{}, {}], ["1", "2"]),  # of Koog
        ([{"id": "a"}], [{"tool_call_id": "x"}], [None, "1"]),  # of no call
    ],
)
def test_a_result_belongs_to_the_call_that_it_names_else_to_the_earliest(
    calls: Messages, results: Messages, outputs: list[str | None]
) -> None:
    asked: Messages = [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}} | call for call in calls]}]
    asked += [{"role": "tool", "content": str(number)} | each for number, each in enumerate(results, start=1)]
    assert [step.get("output") for step in steps_of_messages(asked) if step["kind"] == "tool"] == outputs


def _record(name: str, body: Mapping[str, Any], span: Any) -> dict[str, Any]:
    return {"traceId": "t1", "spanId": span, "body": otlp_value(body), "eventName": name}


@pytest.mark.parametrize("span", ["s1", ""])
def test_messages_in_log_records_are_those_of_their_span(span: str, tmp_path: Path) -> None:
    records = [
        _record("gen_ai.user.message", {"content": _Q}, span),
        _record("", {"index": 0, "message": {"role": "assistant", "content": "B4."}}, span)
        | {"attributes": otlp_attributes({"event.name": "gen_ai.choice"})},
        _record("exception", {"message": "a line of the program"}, span),
    ]
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    spans = otlp_file([_span(0, _INVOKE), _span(1, {"gen_ai.operation.name": "chat"}, 0)])
    row = _only(tmp_path, spans | logs)
    assert (row["prompt"], row["output"]) == ([{"role": "user", "content": _Q}], "B4.")
    (tmp_path / "lines.jsonl").write_text(json.dumps(logs) + "\n" + json.dumps(spans), encoding="utf-8")
    assert [raw.content["output"] for raw in read_rows([tmp_path / "lines.jsonl"], {})] == ["B4."]
    (tmp_path / "logs.json").write_text(json.dumps(logs), encoding="utf-8")
    assert ["expected both" in str(raw.content) for raw in read_rows([tmp_path / "logs.json"], {})] == [True, True]


def test_each_call_is_one_step_however_many_spans_tell_of_it(tmp_path: Path) -> None:
    spans = [
        _span(0, _INVOKE),
        _chat(1, _ASKED, None, _CALL, {"id": "c2", "function": {"name": "hand_over", "arguments": "{}"}}, parent=0),
        _span(2, _EXECUTE | {"gen_ai.tool.call.arguments": '{"flight": 7}'}, 0),
        _span(3, _EXECUTE, 2),  # of the MCP server
        _span(4, _EXECUTE | {"gen_ai.tool.name": "(merged tools)"}, 0),  # of Google's ADK
    ]
    steps = _only(tmp_path, otlp_file(spans))["steps"]
    assert [step["name"] for step in steps if step["kind"] == "tool"] == ["hand_over", "gate_of"]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ({"type": "server_tool_call", "server_tool_call": {"q": 1}}, {"type": "server_tool_call_response", "id": "x"}),
        ({"type": "server_tool_use", "input": {"q": 1}}, {"type": "web_search_tool_result", "tool_use_id": "x"}),
        ({"type": "mcp_tool_use", "input": {"q": 1}}, {"type": "mcp_tool_result", "tool_use_id": "x"}),
    ],
)
def test_a_tool_of_the_provider_is_a_step_and_no_part_of_the_answer(call: Any, result: Any, tmp_path: Path) -> None:
    parts = [call | {"id": "x", "name": "find"}, result | {"content": "B4"}, {"type": "text", "text": "Gate B4."}]
    fields = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(_ASKED)}
    fields["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "content": parts}])
    row = _only(tmp_path, otlp_file([_span(0, fields)]))
    assert row["output"] == "Gate B4."
    tools = [(step["name"], step["input"]) for step in row["steps"] if step["kind"] == "tool"]
    assert tools == [("find", {"q": 1})]


def test_a_demonstration_of_swe_agent_has_its_history_alone(tmp_path: Path) -> None:
    made = {"role": "assistant", "agent": "main", "content": "I look.", "tool_calls": [_CALL], "message_type": "action"}
    done = {"role": "tool", "agent": "main", "content": "B4", "tool_call_ids": ["c1"]}
    row = _only(tmp_path, {"history": [{**_ASKED[0], "agent": "main"}, made, done]})
    assert (row["prompt"], row["output"]) == (_ASKED, "I look.")
    tools = [(step["name"], step["output"]) for step in row["steps"] if step["kind"] == "tool"]
    assert tools == [("gate_of", "B4")]


_PICTURE = {"type": "image", "source": {"media_type": "image/png", "path": "gates.png"}}


def test_sub_agents_of_atif_are_steps_behind_their_call_and_copied_usage_counts_once(tmp_path: Path) -> None:
    def made(number: int, text: str, tokens: int, **more: Any) -> dict[str, Any]:
        metrics = {"prompt_tokens": tokens, "completion_tokens": 0}
        return {"step_id": number, "source": "agent", "message": text, "metrics": metrics, **more}

    result = {"source_call_id": "c1", "content": "B4", "subagent_trajectory_ref": [{"trajectory_id": "sub"}]}
    call = {"tool_call_id": "c1", "function_name": "ask", "arguments": {}}
    steps = [
        {"step_id": 1, "source": "user", "message": [{"type": "text", "text": _Q}, _PICTURE]},
        made(2, "Before.", 50, is_copied_context=True),
        made(3, "", 10, tool_calls=[call], observation={"results": [result]}),
        made(4, "Gate B4.", 20),
    ]
    below = {"trajectory_id": "sub", "agent": {"name": "guide"}, "steps": [made(1, "It is B4.", 7)]}
    about = {"schema_version": "ATIF-v1.7", "agent": {"name": "main"}, "session_id": "s"}
    row = _only(tmp_path, about | {"steps": steps, "subagent_trajectories": [below]})
    assert (row["output"], _sum(row, "tokens")) == ("Gate B4.", 37)
    assert [step.get("agent") for step in row["steps"]] == [None, None, None, "guide", None]
    assert row["prompt"][0]["content"][1]["image_url"] == {"url": "file:gates.png"}


def _rows_of_lines(folder: Path, *lines: Mapping[str, Any]) -> list[Any]:
    path = folder / "lines.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return [raw.content for raw in read_rows([path], {})]


_ATIF = {"schema_version": "ATIF-v1.7", "agent": {"name": "main"}}
_REFERRING = {"source": "agent", "observation": {"results": [{"subagent_trajectory_ref": [{"trajectory_id": "sub"}]}]}}


@law_over(
    ("document", "faults"),
    [
        (
            otlp_file([_span(0, {"gen_ai.operation.name": "chat"}) | {"spanId": ["s0"]}])
            | {"resourceLogs": [{"scopeLogs": [{"logRecords": [_record("gen_ai.choice", {}, "")]}]}]},
            ["spanId: found a list of 1, expected an id"],
        ),
        (
            otlp_file([_span(0, {"gen_ai.operation.name": "chat"})])
            | {"resourceLogs": [{"scopeLogs": [{"logRecords": [_record("gen_ai.choice", {}, ["s0"])]}]}]},
            ["spanId: found a list of 1, expected an id"],
        ),
        (
            _ATIF | {"steps": [_REFERRING], "subagent_trajectories": [{"trajectory_id": "sub", "steps": 5}]},
            ["subagent_trajectories[0].steps: found the number 5, expected a list of steps"],
        ),
        (
            _ATIF | {"steps": [_REFERRING], "subagent_trajectories": [{"trajectory_id": "sub", "steps": [{}]}]},
            ["subagent_trajectories[0].steps[0].source: found null, expected one of user, agent, system"],
        ),
    ],
)
def test_a_field_of_another_type_is_one_named_fault(document: Any, faults: list[str], tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(document), encoding="utf-8")
    contents = [raw.content for raw in read_rows([tmp_path / "run.json"], {})]
    assert [content for content in contents if isinstance(content, str)] == faults


def test_an_output_of_codex_that_is_a_list_of_calls_is_its_json(tmp_path: Path) -> None:
    listed = [{"type": "function_call", "name": "x", "arguments": "{}"}]
    made = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"}
    done = {"type": "function_call_output", "call_id": "c1", "output": listed}
    items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": _Q}]}, made, done]
    (row,) = _rows_of_lines(tmp_path, *({"type": "response_item", "payload": item} for item in items))
    assert [step["output"] for step in row["steps"] if step["kind"] == "tool"] == [canonical_json(listed)]


def test_a_tool_of_the_provider_leaves_a_reply_of_claude_code_its_tokens(tmp_path: Path) -> None:
    parts = [
        {"type": "server_tool_use", "id": "w", "name": "web_search", "input": {"query": "gate"}},
        {"type": "web_search_tool_result", "tool_use_id": "w", "content": [{"type": "text", "text": "B4"}]},
        {"type": "text", "text": "Gate B4."},
    ]
    reply = {"id": "m1", "role": "assistant", "content": parts, "usage": {"input_tokens": 90, "output_tokens": 10}}
    asked = {"sessionId": "s", "type": "user", "message": {"role": "user", "content": _Q}}
    (row,) = _rows_of_lines(tmp_path, asked, {"sessionId": "s", "type": "assistant", "message": reply})
    assert (row["output"], _sum(row, "tokens")) == ("Gate B4.", 100)


@pytest.mark.parametrize(
    ("begin", "is_failed"),
    [
        ("Exit code: 1\nWall time: 1.5 seconds\n", True),
        ("Chunk ID: 9a\nWall time: 1.5 seconds\nProcess exited with code 1\n", True),
        ("Exit code: 0\nWall time: 1.5 seconds\n", False),
    ],
)
def test_a_command_of_codex_fails_by_the_exit_code_in_its_text(begin: str, is_failed: bool, tmp_path: Path) -> None:
    made = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": '{"cmd": "ls"}'}
    done = {"type": "function_call_output", "call_id": "c1", "output": f"{begin}Output:\nB4"}
    items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": _Q}]}, made, done]
    (row,) = _rows_of_lines(tmp_path, *({"type": "response_item", "payload": item} for item in items))
    (step,) = (step for step in row["steps"] if step["kind"] == "tool")
    assert ("error" in step, step["latency_ms"]) == (is_failed, 1500)
