"""A lake over the Model Context Protocol: what a client reads, and what a hostile client or text does."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, latest_version
from gradebook.tasks.serving.mcp_server import MOST_ANSWER, MOST_CELL, MOST_LINE_BYTES, TOOLS, answer_line, serve_mcp
from tests.support.rated_lake import TONE
from tests.support.scored_lake import write_scores
from tests.support.served_ratings import HOSTILE, RUN, rated_run


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rated_run(tmp_path)


def called(lake: Lake, name: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a tool failed, and its text."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    found = answer_line(lake, json.dumps(asked).encode())
    return found["result"]["isError"], found["result"]["content"][0]["text"]


def values_of(text: str) -> Any:
    """Text between the marks of an answer."""
    return json.loads(text.splitlines()[2])


def test_a_client_shakes_hands_lists_tools_and_calls_one_in_a_process(lake):
    messages = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": "two", "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "list_runs"}},
        {"id": 4, "method": "ping"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0"} | message) + "\n" for message in messages)
    command = [sys.executable, "-m", "gradebook", "lake", "mcp", "--lake", f"sqlite:{lake.address}"]
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    first, second, third, fourth = map(json.loads, ended.stdout.splitlines())
    assert (first["result"]["protocolVersion"], first["result"]["capabilities"]) == ("2025-06-18", {"tools": {}})
    assert (second["id"], [tool["name"] for tool in second["result"]["tools"]]) == ("two", [*TOOLS])
    assert values_of(third["result"]["content"][0]["text"])[0]["run_id"] == RUN
    assert (fourth["result"], ended.stderr) == ({}, "")


@pytest.mark.nightly
def test_each_tool_is_described_by_a_schema_and_only_reads(lake):
    for tool in TOOLS.values():
        described = tool.described()
        Draft202012Validator.check_schema(described["inputSchema"])
        assert (described["annotations"]["readOnlyHint"], bool(described["description"])) == (True, True)
    write_scores(lake, "run-2", TONE, [{"case_id": f"c{place}", "scores": {"tone": 1.0}} for place in range(10)])
    before = latest_version(lake)
    assert values_of(called(lake, "run_summary")[1])["verdict"]["sentence"]
    assert values_of(called(lake, "compare_runs", run_a=RUN, run_b="run-2")[1])["overall"][0]["mean_b"] == 1.0
    assert values_of(called(lake, "sql", statement="select count(*) as n from outputs")[1]) == [{"n": 20}]
    for statement in ("delete from runs", "select 1; select 2", "select * from read_csv('/etc/passwd')"):
        assert called(lake, "sql", statement=statement)[0]
    assert latest_version(lake) == before


def test_texts_of_others_stand_between_marks_that_they_cannot_know(lake):
    is_error, text = called(lake, "failing_outputs", criterion_id="tone", count=3)
    note, begin, _, end = text.splitlines()
    found = values_of(text)
    assert (is_error, begin[1:] == end[2:], begin in note) == (False, True, True)
    assert [row["verdicts"][0]["score"] for row in found] == [0.0, 0.0, 0.0]
    assert found[0]["output"].startswith(HOSTILE[:20])
    assert called(lake, "failing_outputs")[1].splitlines()[1] != begin  # another one each time


def test_answers_are_capped(lake):
    grow = "update outputs set output = repeat('x', 100000)"
    commit(lake, "long", lambda connection, _version: connection.execute(grow))
    found = values_of(called(lake, "failing_outputs", criterion_id="tone", count=1)[1])
    assert found[0]["output"].startswith("x" * MOST_CELL + "... (100,000")
    rows = values_of(called(lake, "sql", statement="select range as n from range(1000)")[1])
    assert (rows["row_count"], len(rows["rows"])) == (1000, 200)
    wide = called(lake, "sql", statement="select repeat('x', 1900) as x from range(100)")[1]
    assert (len(wide) < MOST_ANSWER + 400, "cut: 19" in wide) == (True, True)


WRONG = {
    "no JSON": (b"{\n", -32700),
    "not a number": (b'{"id": NaN, "method": "ping"}\n', -32700),
    "a list": (b"[]\n", -32600),
    "a method that is no text": (b'{"id": 1, "method": 3}\n', -32600),
    "another method": (b'{"id": 1, "method": "resources/list"}\n', -32601),
    "parameters that are no object": (b'{"id": 1, "method": "ping", "params": [1]}\n', -32602),
    "another tool": (b'{"id": 1, "method": "tools/call", "params": {"name": "drop"}}\n', -32602),
    "deep": (b'{"id": 1, "method": "ping", "params": ' + b"[" * 100_000 + b"\n", -32700),
    "a line that is too long": (b"x" * (MOST_LINE_BYTES * 2) + b"\n", -32600),
}


def test_each_wrong_message_is_answered_with_its_code_and_the_next_one_is_read(lake):
    ping = b'{"id": 7, "method": "ping"}\n'
    sent = io.BytesIO()
    serve_mcp(lake, io.BytesIO(b"".join(line + ping for line, _ in WRONG.values())), sent)
    answers = [json.loads(line) for line in sent.getvalue().splitlines()]
    codes = [answer["error"]["code"] for answer in answers[::2]]
    assert dict(zip(WRONG, codes, strict=True)) == {name: code for name, (_, code) in WRONG.items()}
    assert answers[1::2] == [{"jsonrpc": "2.0", "id": 7, "result": {}}] * len(WRONG)


def test_wrong_arguments_are_a_result_that_the_model_reads(lake):
    is_error, text = called(lake, "list_runs", count=0)
    assert (is_error, "count: Input should be greater than or equal to 1" in text) == (True, True)
    assert "expected one of those that `gradebook runs` lists" in called(lake, "run_summary", run_id="none")[1]
