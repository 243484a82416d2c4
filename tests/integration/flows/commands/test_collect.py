"""The command `gradebook collect`."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly

CASES, IN_FLIGHT = 40, 4
COMMAND = ("collect", "prompts.jsonl", "--endpoint", "endpoint.yaml", "--out", "outputs.jsonl", "--json")


@pytest.fixture
def server() -> Iterator[LoopbackJudge]:
    with LoopbackJudge() as model:
        yield model


@pytest.fixture
def folder(tmp_path: Path, server: LoopbackJudge) -> Path:
    prompts = [{"case_id": f"c{number}", "prompt": f"Question {number}?"} for number in range(CASES)]
    (tmp_path / "prompts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in prompts), encoding="utf-8")
    settings = f"model: m\nbase_url: {server.base_url}\nmax_in_flight: {IN_FLIGHT}\n"
    (tmp_path / "endpoint.yaml").write_text(settings, encoding="utf-8")
    return tmp_path


def kill_after(process: Forked, server: LoopbackJudge, count: int) -> None:
    server.held_after = count
    while process.is_running and server.answered_count < count:
        time.sleep(0.005)
    process.kill()
    server.held_after = None


def journaled_count(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.glob(".outputs.jsonl.journal/replies/*.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("answered_before", [20, *nightly([1, 39])])
def test_after_a_kill_no_answered_prompt_is_sent_again(folder, server, answered_before):
    server.latency_s = 0.05
    first = Forked(COMMAND, folder)
    kill_after(first, server, answered_before)
    kept_count = journaled_count(folder)
    assert not (folder / "outputs.jsonl").exists()
    before = server.request_count
    code, out, err = Forked(COMMAND, folder).wait()
    assert (code, server.request_count - before) == (0, CASES - kept_count), err
    assert server.request_count <= CASES + IN_FLIGHT
    assert json.loads(out)["kept_count"] == kept_count >= answered_before - IN_FLIGHT
    assert len((folder / "outputs.jsonl").read_text().splitlines()) == CASES


@pytest.mark.slow
def test_two_commands_at_once_do_not_pay_twice(folder, server):
    server.latency_s = 0.2
    first = Forked(COMMAND, folder)
    kill_time = time.monotonic() + 60
    while not server.request_count and time.monotonic() < kill_time:
        time.sleep(0.005)
    code, _, err = Forked(COMMAND, folder).wait()
    assert (code, "which another process is collecting now" in err) == (2, True)
    assert (first.wait()[0], server.request_count) == (0, CASES)


def test_the_json_describes_the_collected_outputs(gradebook, folder, server):
    finished = gradebook(*COMMAND, "--model", "mine", "--checkpoint", "7", "--max-in-flight", "2")
    assert (finished.code, finished.err) == (0, "starting\ncollecting outputs: 40\n")
    told = finished.json
    assert (told["model"], told["checkpoint"], told["output_count"]) == ("mine", "7", CASES)
    assert (told["endings"], told["request_count"], told["cost_usd"]) == ({"stop": CASES}, CASES, None)
    assert server.most_in_flight <= 2


def test_the_summary_goes_to_stdout_and_the_stages_to_stderr(gradebook, folder):
    finished = gradebook(*COMMAND[:-1])
    next_command = "score them:\n  gradebook evaluate outputs.jsonl --rubric RUBRIC --judge JUDGE\n"
    assert (finished.code, finished.err) == (0, f"starting\ncollecting outputs: 40\n{next_command}")
    assert "40 outputs of 40 cases in outputs.jsonl" in finished.out
    assert "40 requests, billed unknown" in finished.out


def test_a_column_may_have_another_name(gradebook, folder):
    (folder / "prompts.csv").write_text("id,question\n1,What?\n2,Why?\n", encoding="utf-8")
    named = ("--map", "case_id=id", "--map", "prompt=question")
    finished = gradebook("collect", "prompts.csv", "--endpoint", "endpoint.yaml", "--out", "o.jsonl", *named, "--json")
    assert finished.json["case_count"] == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("gone.jsonl", "--endpoint", "endpoint.yaml", "--out", "o.jsonl"), "found a path that is not there"),
        (("prompts.jsonl", "--endpoint", "gone.yaml", "--out", "o.jsonl"), "expected an endpoint file"),
        (("prompts.jsonl", "--endpoint", "replay:r.jsonl", "--out", "o.jsonl"), "found recorded replies"),
        (("prompts.jsonl", "--endpoint", "endpoint.yaml", "--out", "prompts.jsonl"), "which is one of the prompts"),
        (
            ("prompts.jsonl", "--endpoint", "endpoint.yaml", "--out", "o.jsonl", "--budget-usd", "1"),
            "--budget-usd: found no price of m",
        ),
    ],
)
def test_bad_input_exits_with_2_and_sends_no_request(gradebook, folder, server, words, sentence):
    finished = gradebook("collect", *words)
    assert (finished.code, server.request_count) == (2, 0)
    assert sentence in finished.err


def test_a_prompts_file_without_prompts_gets_a_hint_about_column_names(gradebook, folder):
    (folder / "prompts.csv").write_text("case_id,question\n1,What?\n", encoding="utf-8")
    finished = gradebook("collect", "prompts.csv", "--endpoint", "endpoint.yaml", "--out", "o.jsonl")
    assert (finished.code, "--map prompt=question" in finished.err) == (2, True)


def test_a_missing_endpoint_exits_with_3(gradebook, folder):
    (folder / "endpoint.yaml").write_text("model: m\nbase_url: http://127.0.0.1:9/v1\n", encoding="utf-8")
    assert gradebook(*COMMAND).code == 3


def test_the_outputs_can_be_evaluated_as_they_are(gradebook, folder):
    gradebook(*COMMAND)
    (folder / "short.yaml").write_text(
        "id: short\nversion: 1.0.0\nname: Short\ndescription: Is it short?\npass_threshold: 1\ncriteria:\n"
        "  - {id: words, description: A few words., weight: 1, method: {type: check, check: length_words, "
        "settings: {min: 1, max: 9}}}\n",
        encoding="utf-8",
    )
    finished = gradebook("evaluate", "outputs.jsonl", "--rubric", "short.yaml", "--dry-run", "--json")
    assert (finished.code, finished.json["output_count"]) == (0, CASES), finished.err
