"""Telemetry of a run: log lines, and spans and metrics sent to a real receiver."""

import json
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.datasets.discovery import dataset_files, read_rows
from gradebook.tasks.datasets.row_parser import RowFitter
from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.otlp_receiver import OtlpReceiver, attributes_of
from tests.support.samples import write_lines, write_rubric

KEY, CANARY = "sk-canary-0123456789", "a zebra in the text of an output"
GONE = "http://127.0.0.1:9"  # the `discard` port, without a listener


@pytest.fixture(scope="module")
def judge() -> Iterator[LoopbackJudge]:
    with LoopbackJudge() as server:
        yield server


def review(folder: Path, judge: LoopbackJudge, **more: str) -> tuple[int | None, str, str]:
    """Judge and check one output in a child process; returns exit code, stdout and stderr."""
    write_rubric(folder / "rubric.yaml")
    (folder / "answer.txt").write_text(CANARY, encoding="utf-8")
    words = ("review", "answer.txt", "--rubrics", "rubric.yaml", "--judge", "gpt-4o-mini")
    return Forked(words, folder, OPENAI_BASE_URL=judge.base_url, OPENAI_API_KEY=KEY, **more).wait()


def log_lines(err: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory, judge: LoopbackJudge) -> list[dict[str, Any]]:
    """Log lines of a review whose first two requests failed."""
    judge.faults = ["500", "429"]
    code, _out, err = review(tmp_path_factory.mktemp("logged"), judge, GRADEBOOK_LOG="json")
    assert code in {0, 1}, err
    return log_lines(err)


@pytest.mark.slow
def test_each_stage_and_shard_logs_its_beginning_and_end(lines: list[dict[str, Any]]):
    told = [(line["event"], line.get("stage"), line.get("criterion_id"), line.get("shard")) for line in lines]
    pieces = [(None, None, None), ("ingest", None, None), ("score", "clarity", 0), ("score", "length", 0)]
    assert [(event, *piece) in told for piece in pieces for event in ("begin", "end")] == [True] * 8


@pytest.mark.slow
def test_a_log_line_has_time_level_and_run(lines: list[dict[str, Any]]):
    assert {line["level"] for line in lines} == {"info"}
    assert len({line["run_id"] for line in lines}) == 1
    assert {datetime.fromisoformat(line["time"]).utcoffset().seconds for line in lines} == {0}
    assert {line["logger"].partition(".")[0] for line in lines} == {"gradebook"}


@pytest.mark.slow
def test_each_retry_and_each_rate_limit_of_the_judge_is_logged(lines: list[dict[str, Any]]):
    asked_again = [(line["event"], line["error_type"]) for line in lines if line["logger"] == "gradebook.judge"]
    assert asked_again == [("judge.retry", "HTTP 500"), ("judge.limited", "HTTP 429")]


@pytest.mark.slow
def test_the_end_of_a_run_is_logged_with_time_requests_and_dollars(lines: list[dict[str, Any]]):
    last = lines[-1]
    assert (last["message"], last["run_request_count"]) == ("run is done", 3)
    assert last["seconds"] > 0 and last["run_cost_usd"] > 0


@pytest.mark.slow
def test_no_text_of_an_output_and_no_key_is_in_a_log(tmp_path: Path, judge: LoopbackJudge):
    judge.faults = ["echo", "400"]
    _code, _out, err = review(tmp_path, judge, GRADEBOOK_LOG="json")
    assert log_lines(err)
    assert [word in err for word in (CANARY, KEY)] == [False, False]


def test_an_unknown_log_format_is_refused(tmp_path: Path, judge: LoopbackJudge):
    code, _out, err = review(tmp_path, judge, GRADEBOOK_LOG="xml")
    assert (code, err) == (2, "gradebook: GRADEBOOK_LOG: found 'xml', expected json or text\n")


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtlpReceiver]:
    """Receiver with the telemetry of a review whose first request failed."""
    with OtlpReceiver() as server, LoopbackJudge(faults=("500",)) as judge:
        server.judge = judge
        code, _out, err = review(tmp_path_factory.mktemp("traced"), judge, OTEL_EXPORTER_OTLP_ENDPOINT=server.base_url)
        assert code in {0, 1}, err
        yield server


@pytest.mark.slow
def test_a_run_its_stages_and_its_shards_are_spans_of_one_trace(receiver: OtlpReceiver):
    (run,) = receiver.named("run")
    (scored,) = receiver.named("score clarity")
    (stage,) = [span for span in receiver.named("score") if span.span_id == scored.parent_span_id]
    assert {span.trace_id for span in receiver.spans} == {run.trace_id}
    parents = [span.parent_span_id for span in (run, stage, scored)]
    assert parents == [b"", run.span_id, stage.span_id]
    assert attributes_of(scored)["gradebook.shard"] == 0
    assert receiver.resources[0]["service.name"] == "gradebook"


@pytest.mark.slow
def test_traces_of_gradebook_itself_are_read_as_traces_of_agents(receiver: OtlpReceiver, tmp_path: Path):
    write_lines(tmp_path / "own.jsonl", receiver.traced)
    (row,) = read_rows(dataset_files(str(tmp_path / "own.jsonl")), {})
    assert isinstance(row.content, dict)
    steps = RowFitter({}).fit(row.content, "jsonl").steps
    asked = [step for step in steps if step.kind == "model"]
    assert [(step.name, bool(step.tokens), bool(step.cost_usd), step.error) for step in asked] == [
        ("gpt-4o-mini", False, False, "HTTP 500"),
        ("gpt-4o-mini-2026", True, True, None),
    ]
    assert {step.kind for step in steps} == {"system", "model"}


@pytest.mark.slow
def test_a_request_is_a_span_with_the_names_of_the_genai_conventions(receiver: OtlpReceiver):
    judge = receiver.judge
    failed, answered = (attributes_of(span) for span in receiver.named("chat gpt-4o-mini"))
    assert failed["error.type"] == "HTTP 500"
    assert (answered["gen_ai.operation.name"], answered["gen_ai.request.model"]) == ("chat", "gpt-4o-mini")
    assert (answered["server.address"], "error.type" in answered) == ("127.0.0.1", False)
    assert answered["gen_ai.usage.input_tokens"] == judge.prompt_tokens
    assert answered["gen_ai.usage.output_tokens"] == judge.completion_tokens


@pytest.mark.slow
def test_tokens_seconds_and_dollars_are_metrics(receiver: OtlpReceiver):
    judge = receiver.judge
    points = receiver.metrics["gen_ai.client.token.usage"].histogram.data_points
    used = {attributes_of(point)["gen_ai.token.type"]: point.sum for point in points}
    assert used == {"input": judge.prompt_tokens, "output": judge.completion_tokens}
    durations = receiver.metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert sum(point.count for point in durations) == 2
    (dollars,) = receiver.metrics["gradebook.cost_usd"].sum.data_points
    assert dollars.as_double > 0


@pytest.fixture(params=["silent", *matrix(["gone"])])
def useless_receiver(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a receiver that refuses connections, or accepts them and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield GONE if request.param == "gone" else f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
def test_an_unresponsive_receiver_neither_fails_nor_delays_a_run(
    tmp_path: Path, judge: LoopbackJudge, useless_receiver: str
):
    # The environment sets a timeout of an hour: a run that waited that long would exceed the timeout of `review`.
    told = {"OTEL_EXPORTER_OTLP_ENDPOINT": useless_receiver, "OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}
    code, _out, err = review(tmp_path, judge, **told)
    assert code in {0, 1}
    assert [word in err for word in ("Traceback", "Error", "opentelemetry")] == [False] * 3
