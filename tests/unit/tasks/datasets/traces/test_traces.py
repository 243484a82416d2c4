"""Traces of agents as rows: one run in every format, and what is wrong in a trace."""

import copy
import io
import json
import math
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from gradebook.rubrics.model.errors import OutputsError
from gradebook.tasks.datasets.discovery import dataset_files, read_rows
from gradebook.tasks.datasets.file_formats import RawRow
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.datasets.traces import otlp
from gradebook.tasks.datasets.traces.documents import Part, grouped
from tests.support import agent_traces as made
from tests.support.nightly import matrix

_Write = Callable[[Path], Path]


def _document(content: Callable[[], Any], name: str = "run.json", **style: Any) -> _Write:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_text(json.dumps(content(), **style))
        return path

    return write


def _lines(content: Callable[[], list[Any]]) -> _Write:
    def write(folder: Path) -> Path:
        path = folder / "run.jsonl"
        path.write_text("".join(f"{json.dumps(each)}\n" for each in content()))
        return path

    return write


def _archive(pack: Callable[[bytes], bytes] | None) -> _Write:
    def write(folder: Path) -> Path:
        path = folder / "run.eval"
        path.write_bytes(made.inspect_archive(pack))
        return path

    return write


def _in_frames(text: bytes) -> bytes:
    """Several frames of zstd, as Inspect writes them."""
    half = len(text) // 2
    return b"".join(pa.compress(part, codec="zstd", asbytes=True) for part in (text[:half], text[half:]))


_FILES = {
    "otlp messages": _document(made.otlp_messages),
    "otlp details": _document(made.otlp_details, indent=2),
    "otlp events": _document(made.otlp_events),
    "openllmetry": _document(made.openllmetry),
    "openinference": _document(made.openinference),
    "otlp models only": _document(made.models_only),
    "tempo": _document(made.tempo),
    "tempo trace": _document(lambda: {"trace": made.otlp_messages()}),
    "jaeger": _document(made.jaeger),
    "phoenix": _document(made.phoenix),
    "phoenix nested": _document(made.nested_phoenix),
    "console exporter": _lines(made.console),
    "spans alone": _lines(made.spans_alone),
    "langfuse": _document(made.langfuse),
    "langfuse download": _document(made.downloaded_langfuse),
    "langfuse list": _document(lambda: [made.langfuse()]),
    "langsmith list": _document(made.langsmith),
    "langsmith lines": _lines(made.langsmith),
    "mlflow": _document(made.mlflow),
    "atif": _document(made.atif, indent=1),
    "claude code": _lines(made.claude_code),
    "codex": _lines(made.codex),
    "swe agent": _document(made.swe_agent, "run.traj", indent=2),
    "inspect json": _document(made.inspect_json),
    "inspect eval": _archive(None),
    "inspect eval zstd": _archive(_in_frames),
}


def _read(path: Path) -> list[RawRow]:
    return list(read_rows(dataset_files(str(path)), {}))


def _only(path: Path) -> dict[str, Any]:
    (row,) = _read(path)
    assert isinstance(row.content, dict), row.content
    return row.content


@pytest.mark.parametrize("name", _FILES)
def test_one_run_is_the_same_row_from_every_format(name: str, tmp_path: Path) -> None:
    content = _only(_FILES[name](tmp_path))

    fitted = RowFitter({}).fit(content, "jsonl")
    assert not isinstance(fitted, str), fitted
    steps = [step for step in fitted.steps or () if step.kind in ("model", "tool")]
    errors_as_results = {"otlp models only", "swe agent"}  # such results do not say that they are errors
    found = []
    for step in steps:
        output = None if step.error or (step.kind == "model" and not step.output) else step.output
        found.append((step.kind, step.input, output, step.error))
    expected = [
        (kind, None if given is None else orjson.dumps(orjson.loads(given)).decode(), text, error)
        for kind, given, text, error in made.STEPS
    ]
    if name in errors_as_results:
        expected[3] = (*expected[3][:2], made.GONE, None)
    assert [(kind, _compact(given), output, error) for kind, given, output, error in found] == expected
    assert [step.name for step in steps if step.kind == "tool"] == ["search", "book"]
    assert (fitted.output, fitted.model) == (made.ANSWER, made.MODEL)
    assert json.loads(fitted.metadata or "")["trace_id"] == "t1"
    asked = made.ASKED[1:] if name in ("claude code", "codex") else made.ASKED
    assert json.loads(fitted.prompt or "") == asked


def test_totals_of_codex_and_swe_agent_are_counted_once(tmp_path: Path) -> None:
    sessions = [*made.codex(), *made.codex()]
    sessions[len(made.codex())] = {"type": "session_meta", "payload": {"id": "t2"}}
    first, second = (row.content["steps"] for row in _read(_lines(lambda: sessions)(tmp_path)))
    assert [step.get("tokens") for step in first] == [100, None, 100, None, 100]
    assert [step.get("latency_ms") for step in first] == [None, 500, None, 500, None]
    assert len(second) == len(first)
    whole = _only(_FILES["swe agent"](tmp_path))
    assert (whole["case_id"], [step.get("tokens") for step in whole["steps"]][-1]) == ("t1", 300)


def test_runs_of_one_case_are_numbered_over_all_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        _lines(made.codex)(tmp_path).rename(tmp_path / f"{name}.jsonl")
    notes: Counter[str] = Counter()
    rows = list(read_rows(dataset_files(str(tmp_path)), {}, notes=notes))
    assert [row.content.get("sample_index") for row in rows] == [None, 1]  # type: ignore[union-attr]
    assert notes == {"read as traces of codex, found by type and payload (--from)": 2}


def test_a_file_that_may_be_of_two_formats_is_refused_with_both(tmp_path: Path) -> None:
    both = {**made.atif(), "observations": []}
    with pytest.raises(OutputsError, match=r"atif \(schema_version\), langfuse \(observations\), expected one"):
        _read(_document(lambda: both)(tmp_path))


def test_the_one_tool_of_mini_swe_agent_is_bash(tmp_path: Path) -> None:
    content = _only(_document(made.mini_swe_agent, "run.traj.json")(tmp_path))
    calls = [(step["name"], step["input"], step["output"]) for step in content["steps"] if step["kind"] == "tool"]
    assert calls == [("bash", "ls", "a.py"), ("bash", "cat a.py", "x = 1")]
    assert (content["output"], content["model"], content["prompt"]) == ("diff --git", made.MODEL, made.ASKED)


def _compact(given: str | None) -> str | None:
    return None if given is None else orjson.dumps(orjson.loads(given)).decode()


def test_costs_times_and_parents_are_kept(tmp_path: Path) -> None:
    content = _only(_FILES["otlp messages"](tmp_path))

    agent, *others = content["steps"]
    assert (agent["kind"], agent["name"], agent["parent_index"]) == ("agent", "booker", None)
    assert {step["parent_index"] for step in others} == {0}
    assert [step["latency_ms"] for step in others] == [1000.0] * 5
    assert [step.get("tokens") for step in others] == [100, None, 100, None, 100]
    assert content["metadata"]["service"] == "bookings"


def test_the_spans_of_a_prefect_flow_come_in_around_those_of_its_model() -> None:
    # Taken from Prefect 3.8 by OpenTelemetry's OTLP exporter: a flow with two tools as tasks, of which one fails, and
    # a task that asks a model. Without the events of states before the end, and stack traces; ids as a collector's.
    content = _only(Path(__file__).with_name("prefect_spans.jsonl"))
    steps = [(step["kind"], step["name"].partition("-")[0], step["parent_index"]) for step in content["steps"]]
    assert steps[1:] == [("system", "search", 0), ("system", "book", 0), ("system", "answer", 0), ("model", "qwen", 3)]
    assert content["steps"][2]["error"] == "Task run encountered an exception ValueError: no such room"
    assert (content["prompt"], content["output"]) == ([made.ASKED[1]], made.ANSWER)
    assert content["metadata"]["service"] == "booking"


def test_inspect_names_case_epoch_target_and_scores(tmp_path: Path) -> None:
    content = _only(_FILES["inspect eval"](tmp_path))

    assert (content["case_id"], content["sample_index"], content["reference"]) == ("booking/rooms", 1, "an apology")
    assert content["metadata"]["inspect_scores"] == {"judge": "C"}


def _session(*lines: tuple[str, str | None, list[dict[str, Any]] | str, int], **more: Any) -> list[dict[str, Any]]:
    """Lines of Claude Code: role, id of the reply, content, tokens so far."""
    return [
        {"type": role, "sessionId": "s1", "timestamp": "2026-01-01T10:00:00Z"}
        | {"message": {"role": role, "id": reply, "content": content, "usage": tokens and {"output_tokens": tokens}}}
        | more
        for role, reply, content, tokens in lines
    ]


_THOUGHT = [{"type": "thinking", "thinking": "hm", "signature": "x"}]
_CALLED = [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]


@pytest.mark.parametrize(
    ("replies", "tokens"),
    [
        ([("m1", _THOUGHT, 10), ("m1", "Hello.", 10)], [10]),
        ([("m1", _THOUGHT, 1), ("m1", "Let me look.", 4), ("m1", _CALLED, 9), ("m2", "Hello.", 5)], [None, 9, 5]),
        ([("m1", _THOUGHT, 7), ("m2", _THOUGHT, 2), ("m2", "Hello.", 3)], [7, 3]),
    ],
)
def test_a_reply_in_several_lines_has_the_tokens_of_its_last_once(
    replies: list[tuple[str, Any, int]], tokens: list[int | None], tmp_path: Path
) -> None:
    lines = _session(("user", None, "Say hello.", 0), *(("assistant", *reply) for reply in replies))
    snapshot = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    content = _only(_lines(lambda: [snapshot, *lines])(tmp_path))

    assert [step.get("tokens") for step in content["steps"] if step["kind"] == "model"] == tokens
    assert (content["prompt"], content["output"]) == ([{"role": "user", "content": "Say hello."}], "Hello.")


def test_an_error_of_the_api_is_no_model_of_a_session(tmp_path: Path) -> None:
    lines = _session(
        ("user", None, "Hi", 0), ("assistant", "m1", "Hello.", 1), ("assistant", "e1", "API Error: 529", 0)
    )
    lines[1]["message"]["model"] = "claude-x"
    lines[2]["message"]["model"], lines[2]["isApiErrorMessage"] = "<synthetic>", True
    content = _only(_lines(lambda: lines)(tmp_path))

    assert (content["model"], content["steps"][-1]["error"]) == ("claude-x", "API Error: 529")


def test_files_of_sub_agents_are_steps_of_their_session(tmp_path: Path) -> None:
    def write(name: str, second: int, lines: list[dict[str, Any]]) -> None:
        timed = (line | {"timestamp": f"2026-01-01T10:00:0{second + place}Z"} for place, line in enumerate(lines))
        (tmp_path / name).write_text("".join(f"{json.dumps(line)}\n" for line in timed))

    searched = ("user", None, "Search.", 0), ("assistant", "m9", "Searched.", 7)
    asked, *rest = ("user", None, "Hi", 0), ("assistant", "m1", "Let me see.", 5), ("assistant", "m2", "Hello.", 6)
    write("agent-a1.jsonl", 3, [*_session(*searched, isSidechain=True), {"type": "user", "sessionId": 7}])
    write("s1.jsonl", 1, _session(asked, *rest))
    bad, content = (row for row in _read(tmp_path))

    assert isinstance(content.content, dict)
    found = [(step["output"], step["agent"], step.get("tokens")) for step in content.content["steps"]]
    sidechain = [("Search.", "sidechain", None), ("Searched.", "sidechain", 7)]
    assert found == [("Let me see.", None, 5), ("Hello.", None, 6), *sidechain]
    assert (content.content["output"], content.content["prompt"]) == ("Hello.", [{"role": "user", "content": "Hi"}])
    assert (bad.source, bad.line) == (str(tmp_path / "agent-a1.jsonl"), 3)
    alone = _read(tmp_path / "agent-a1.jsonl")[-1].content
    assert isinstance(alone, dict)
    assert (alone["output"], alone["prompt"]) == ("Searched.", [{"role": "user", "content": "Search."}])


def test_what_the_user_asks_after_a_greeting_is_the_prompt(tmp_path: Path) -> None:
    def run(task: str) -> dict[str, Any]:
        said = [("system", "Be brief."), ("agent", "Hi."), ("user", task), ("agent", "Done."), ("user", "Thanks.")]
        steps = [{"source": source, "message": message, "metrics": {"prompt_tokens": 5}} for source, message in said]
        return {"schema_version": "ATIF-v1.2", "agent": {"model_name": "m"}, "steps": steps}

    one, two = (row.content for row in _read(_lines(lambda: [run("Sort it."), run("Fix it.")])(tmp_path)))
    assert isinstance(one, dict)
    assert isinstance(two, dict)
    assert [message["content"] for message in one["prompt"]] == ["Be brief.", "Sort it."]
    assert [step["output"] for step in one["steps"]] == ["Hi.", "Done.", "Thanks."]
    assert (one["output"], one["case_id"] != two["case_id"]) == ("Done.", True)


def _inspected(**fields: Any) -> dict[str, Any]:
    """Log of Inspect with one sample."""
    messages = [{"role": "user", "content": "Hi", "id": "q"}, {"role": "assistant", "content": "Hello", "id": "a"}]
    sample = {"id": 1, "epoch": 1, "messages": messages, "output": {"completion": "Hello"}} | fields
    return {"version": 2, "eval": {"task": "t", "model": "m"}, "samples": [sample]}


def _asked_model(tokens: int, reply: str | None, span: str = "s", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Mine.", "id": reply}
    output = {"choices": [{"message": message}] if reply else [], "usage": {"total_tokens": tokens}}
    times = {"timestamp": "2026-01-01T10:00:00Z", "completed": "2026-01-01T10:00:02Z"}
    return {"event": "model", "span_id": span, "output": output} | times | more


_SCORED = [
    {"event": "span_begin", "id": "scorers", "type": "scorers"},
    {"event": "span_begin", "id": "inside", "parent_id": "scorers", "type": "scorer"},
    _asked_model(1_000, "grade", "inside"),
]


@pytest.mark.parametrize(
    ("events", "steps"),
    [
        ([_asked_model(11, "a"), *_SCORED], [(11, 2000.0, None)]),
        ([_asked_model(11, None)], [(11, 2000.0, None)]),
        ([_asked_model(7, "other"), _asked_model(11, "a")], [(7, 2000.0, "sub-agent"), (11, 2000.0, None)]),
        ([], [(30, None, None)]),
        ([{"event": "step", "action": "begin", "type": "scorer"}, _asked_model(1_000, None)], [(30, None, None)]),
        ([_asked_model(11, "a", completed=None, working_time=1.5)], [(11, 1500.0, None)]),
    ],
)
def test_inspect_events_give_replies_their_tokens_and_times(
    events: list[Any], steps: list[Any], tmp_path: Path
) -> None:
    used = {"m": {"input_tokens": 20, "output_tokens": 10}, "grader": {"total_tokens": 1_000}}
    content = _only(_document(lambda: _inspected(events=events, model_usage=used))(tmp_path))

    found = [(step.get("tokens"), step.get("latency_ms"), step["agent"]) for step in content["steps"]]
    assert found == steps
    assert content["output"] == "Hello"


def test_the_error_of_an_inspect_tool_is_its_text_and_its_time_is_the_calls(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": "bash", "arguments": {}}]}
    failed = {"role": "tool", "content": "", "tool_call_id": "c1", "error": {"type": "timeout", "message": "Too late."}}
    event = {"event": "tool", "id": "c1", "timestamp": "2026-01-01T10:00:00Z", "completed": "2026-01-01T10:00:05Z"}
    talk = [{"role": "user", "content": "Hi"}, call, failed]
    log = _inspected(messages=talk, events=[event], error={"message": "No time left.", "traceback": "..."})
    content = _only(_document(lambda: log)(tmp_path))

    _, tool, end = content["steps"]
    assert (tool["error"], tool["latency_ms"]) == ("Too late.", 5000.0)
    assert (end["kind"], end["error"]) == ("system", "No time left.")


@pytest.mark.parametrize("write", [_document, None], ids=["json", "eval"])
def test_an_inspect_score_of_nan_is_none(write: Any, tmp_path: Path) -> None:
    log = _inspected(scores={"match": {"value": math.nan}, "other": {"value": "C"}})
    log["results"] = {"scores": [{"metrics": {"stderr": {"value": math.nan}}}]}
    path = tmp_path / "run.eval"
    if write:
        path = write(lambda: log)(tmp_path)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", json.dumps({**log, "samples": []}))
            archive.writestr("samples/1.json", json.dumps(log["samples"][0]))

    content = _only(path)
    assert (content["metadata"]["inspect_scores"], content["model"]) == ({"other": "C"}, "m")


_PIXEL = "data:image/png;base64,iVBORw0KGgo="
_SHOWN = {"type": "image_url", "image_url": {"url": _PIXEL}}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"type": "image", "image": _PIXEL, "detail": "auto"}, _SHOWN),
        ({"type": "image", "image": "attachment://0a1b"}, _SHOWN),
        ({"type": "image", "image": "cat.png"}, {"type": "image_url", "image_url": {"url": "file:cat.png"}}),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}, _SHOWN),
        ({"type": "input_image", "image_url": _PIXEL}, _SHOWN),
        ({"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}, _SHOWN),
        ({"type": "blob", "mime_type": "image/png", "content": "iVBORw0KGgo="}, _SHOWN),
        (_SHOWN, _SHOWN),
        ({"type": "audio", "audio": "a.wav"}, {"type": "input_audio", "input_audio": {"data": "file:a.wav"}}),
    ],
)
def test_a_picture_of_any_dialect_is_a_part_that_a_judge_is_shown(
    part: dict[str, Any], shown: dict[str, Any], tmp_path: Path
) -> None:
    asked = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}
    talk = [asked, {"role": "assistant", "content": "A dot."}, asked, {"role": "assistant", "content": "The same."}]
    content = _only(_document(lambda: _inspected(messages=talk, attachments={"0a1b": _PIXEL}))(tmp_path))

    assert content["prompt"] == [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, shown]}]
    assert content["steps"][1]["output"] == f"What is it?\n[{'audio' if 'audio' in part else 'image'}]"


def test_a_case_tried_again_is_its_next_sample_and_attributes_of_gradebook_set_columns(tmp_path: Path) -> None:
    spans = [
        made.otlp_span(
            0,
            {"gen_ai.operation.name": "chat", "gen_ai.prompt.0.content": "Hi", "gradebook.checkpoint": 7, **more},
            trace=f"t{number}",
        )
        for number, more in enumerate([{}, {}, {"gradebook.case_id": "rooms"}])
    ]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(made.otlp_file([span])) + "\n" for span in spans))

    rows = [row.content for row in _read(tmp_path) if isinstance(row.content, dict)]
    assert [row.get("sample_index", 0) for row in rows] == [0, 1, 0]
    assert rows[0]["case_id"] == rows[1]["case_id"] != rows[2]["case_id"] == "rooms"
    assert {row["checkpoint"] for row in rows} == {7}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spanId": ""}, "spanId: found empty text, expected an id"),
        ({"traceId": 7}, "traceId: found the number 7, expected an id"),
        ({"spanId": "s0"}, "span s0 comes a second time in its trace, expected it once"),
        ({"parentSpanId": "s1"}, "span s1 is among its own ancestors, or below such spans, expected a tree of spans"),
        ({"startTimeUnixNano": "soon"}, 'startTimeUnixNano: found the text "soon", expected a time in ISO 8601'),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano: found the number -1, expected a whole number, 0 or more"),
        ({"startTimeUnixNano": 10**18 * 999}, None),
        ({"attributes": made.otlp_attributes({"gen_ai.usage.input_tokens": "many"})}, None),
    ],
)
def test_a_bad_span_is_named_and_the_rest_of_its_trace_is_read(
    change: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    good = made.otlp_file(made.otlp_messages()["resourceSpans"][0]["scopeSpans"][0]["spans"])
    spans = good["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.append({**made.otlp_span(6, {}), "spanId": "s1" if change.get("parentSpanId") else "s6", **change})
    if change.get("parentSpanId"):
        spans[-1]["spanId"], spans[2]["spanId"] = "s1", "s8"
    (tmp_path / "run.json").write_text(json.dumps(good))

    rows = _read(tmp_path / "run.json")
    reasons = [row for row in rows if isinstance(row.content, str)]
    (reason,) = reasons
    assert said is None or reason.content == said
    assert reason.text
    assert [row.content["output"] for row in rows if isinstance(row.content, dict)] == [made.ANSWER]


def test_a_span_whose_parent_is_missing_stands_for_itself(tmp_path: Path) -> None:
    span = made.otlp_span(3, {"gen_ai.tool.name": "search"}) | {"parentSpanId": "elsewhere"}
    (tmp_path / "run.json").write_text(json.dumps(made.otlp_file([span])))

    (step,) = _only(tmp_path / "run.json")["steps"]
    assert (step["kind"], step["parent_index"]) == ("tool", None)


def test_lines_that_are_no_traces_are_named(tmp_path: Path) -> None:
    lines = [json.dumps(made.otlp_messages()), "{", '{"resourceSpans": 7}', '"text"', '{"resourceLogs": 7}']
    (tmp_path / "run.jsonl").write_text("\n".join(lines))

    rows = _read(tmp_path / "run.jsonl")
    assert [row.line for row in rows if isinstance(row.content, str)] == [2, 3, 4, 5]
    assert sum(isinstance(row.content, dict) for row in rows) == 1


def test_traces_come_whole_however_their_spans_are_strewn() -> None:
    parts = [Part(f"t{number % 90}", number, {"n": number}, 100) for number in range(2_000)]
    random.Random(7).shuffle(parts)  # noqa: S311

    in_memory = {name: [part.line for part in found] for name, found in grouped(parts)}
    on_disk = {name: [part.line for part in found] for name, found in grouped(parts, most_bytes=50_000)}
    assert in_memory == on_disk
    assert list(in_memory) != list(on_disk)


def test_a_damaged_log_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run.eval"
    path.write_bytes(made.inspect_archive()[:-30])

    with pytest.raises(OutputsError, match=r"run\.eval: found an Inspect log that can't be read"):
        _read(path)


_DEEP = "[" * 400 + "]" * 400
_EARLY, _LATE = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"
_HOSTILE = (
    None,
    7,
    "",
    [],
    {},
    [[]],
    {"a": []},
    "\0",
    "\ud800",
    -1,
    True,
    1e400,
    10**30,
    "[" * 200,
    [None, {"type": []}],
)


@pytest.mark.slow
@pytest.mark.parametrize("place_count", [5, *matrix([60])])
@pytest.mark.parametrize("name", [name for name in _FILES if not name.startswith("inspect eval")])
def test_a_trace_with_any_value_in_any_place_is_read_or_named(name: str, place_count: int, tmp_path: Path) -> None:
    """Places of the file get hostile values in turn: no error but ours, no row that is neither read nor named."""
    path = _FILES[name](tmp_path)
    is_lines = path.suffix == ".jsonl"
    text = path.read_text()
    content = [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text)
    places = list(_places(content))
    fuzz = random.Random(name)  # noqa: S311
    fitter = RowFitter({})
    for place in fuzz.sample(places, min(len(places), place_count)):
        for value in _HOSTILE:
            changed = json.loads(json.dumps(content))
            _put(changed, place, value)
            shown = [json.dumps(each) for each in changed] if is_lines else [json.dumps(changed)]
            path.write_text("\n".join(shown))
            try:
                rows = _read(path)
            except OutputsError:
                continue
            for row in rows:
                fitted = row.content if isinstance(row.content, str) else fitter.fit(row.content, row.format)
                assert fitted


def _places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*place, key))


def _put(value: Any, place: tuple[Any, ...], given: Any) -> None:
    for key in place[:-1]:
        value = value[key]
    value[place[-1]] = given


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"startTimeUnixNano": _EARLY}, "expected a time from 1970 to 9999"),
        ({"startTimeUnixNano": _LATE}, "expected a time from 1970 to 9999"),
        ({"spanId": "s" * 1_001}, "expected an id of at most 1,000 characters"),
        ({"attributes": made.otlp_attributes({"gen_ai.tool.name": "t", "input.value": _DEEP})}, None),
        ({"attributes": [{"key": "a", "value": {"intValue": "--5"}}]}, None),
        ({"attributes": [{"key": "a", "value": {"arrayValue": {"values": 5}}}]}, None),
        ({"attributes": made.otlp_attributes({"gen_ai.prompt.0" + "." * 10_000: "x"})}, None),
        (
            {"attributes": made.otlp_attributes({"gen_ai.input.messages": '[{"parts": ["tool_call", "thinking"]}]'})},
            None,
        ),
        ({"attributes": [{"key": "", "value": {"stringValue": "x"}}]}, None),
    ],
)
def test_hostile_fields_are_named_or_read(change: dict[str, Any], said: str | None, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(made.otlp_file([made.otlp_span(0, {}) | change])))

    (row,) = _read(tmp_path / "run.json")
    if said is None:
        assert isinstance(row.content, dict) or "can't be kept as JSON" in row.content
    else:
        assert said in str(row.content)


def test_what_is_no_span_is_named(tmp_path: Path) -> None:
    good = made.otlp_span(0, {})
    scopes = {"a": 1}, [{"spans": [7, good]}], [8], [{"spans": {}}]
    document = {"resourceSpans": [{"scopeSpans": each} for each in scopes]}
    (tmp_path / "run.json").write_text(json.dumps(document))

    rows = _read(tmp_path / "run.json")
    assert [row.content for row in rows if isinstance(row.content, str)] == [
        "scopeSpans: found an object, expected a list of objects",
        "spans: found the number 7, expected an object",
        "scopeSpans: found the number 8, expected an object",
        "spans: found an object, expected a list of objects",
    ]
    assert sum(isinstance(row.content, dict) for row in rows) == 1


def test_the_attributes_of_a_resource_are_not_copied_to_each_span() -> None:
    file = made.otlp_file([made.otlp_span(number, {}) for number in range(50)])
    file["resourceSpans"][0]["resource"]["attributes"] += made.otlp_attributes({"big": "x" * 100_000})

    parts = [part for part in otlp.parts(file, 1, 100_000) if isinstance(part, Part)]
    assert len(orjson.dumps([tuple(part) for part in parts])) < 50_000


@pytest.mark.parametrize("damage", ["overlap", "deflate"])
def test_a_hostile_archive_is_an_error(damage: str, tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1.json", json.dumps(made.inspect_sample()))
        if damage == "overlap":
            twin = copy.copy(archive.filelist[0])
            twin.filename = "samples/2.json"
            archive.filelist.append(twin)
    content = bytearray(file.getvalue())
    if damage == "deflate":
        content[60:90] = b"\xff" * 30
    (tmp_path / "run.eval").write_bytes(bytes(content))

    with pytest.raises(OutputsError, match=r"found an Inspect log that can't be read"):
        _read(tmp_path / "run.eval")
