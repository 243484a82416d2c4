"""Rewards over HTTP: the forms of trainers, what is refused, and a server that is killed, left alone and ended."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.rewards.scorer import RubricScorer
from gradebook.tasks.serving.rewards_api import RewardsApp, rewards_app
from tests.support.loopback_judge import LoopbackJudge

HOST = "127.0.0.1:8600"
LEVELS = [{"id": "fair", "score": 0.5}, {"id": "good", "score": 1}]
TONE = {"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}, "levels": LEVELS}
RIGHT = {"id": "right", "description": "Is right.", "method": {"type": "check", "check": "exact_match"}}
RUBRIC = {"id": "reply", "version": "1.0.0", "criteria": [TONE, RIGHT]}


@pytest.fixture
def judge(monkeypatch) -> Iterator[LoopbackJudge]:
    """A judge that is asked one question at a time."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with LoopbackJudge() as running:
        yield running


def judge_file(judge: LoopbackJudge, folder: Path) -> Path:
    path = folder / "judge.yaml"
    path.write_text(f"model: m\nbase_url: {judge.base_url}\nmax_in_flight: 1\n", encoding="utf-8")
    return path


@contextmanager
def client(rubric: Any, judge: Path | None = None, deadline_s: float = 30.0, **more: Any) -> Iterator[TestClient]:
    with RubricScorer(rubric, judge and str(judge), deadline_s=deadline_s) as scorer:
        app = RewardsApp(scorer, deadline_s, more.get("unscored"))
        with TestClient(rewards_app(app, (HOST,), more.get("token")), base_url=f"http://{HOST}") as found:
            yield found


def test_a_text_has_one_reward_in_each_form(judge, tmp_path):
    with client(RUBRIC, judge_file(judge, tmp_path)) as server:
        row = {"output": "4", "prompt": "2 + 2?", "reference": "4"}
        found = server.post("/score", json={"outputs": [row, row | {"reference": "5"}]}).json()
        asked = {"query": ["2 + 2?4"], "prompts": ["2 + 2?"], "labels": ["4"]}
        batch = server.post("/get_reward", json=asked).json()
        sample = server.post("/reward", json={"prompt": "2 + 2?", "response": "4", "label": "4"}).json()
    first, second = ({each["criterion_id"]: each["score"] for each in one["criteria"]} for one in found["scores"])
    reward = found["scores"][0]["reward"]
    assert (first["right"], second["right"], reward) == (1.0, 0.0, (1 + first["tone"]) / 2)
    assert (found["judge"], sample, batch["rewards"], batch["scores"]) == ("m", reward, [reward], [reward])
    assert (batch["extra_logs"]["right"], judge.request_count) == ([1.0], 2)  # texts with other references are two


def test_a_missing_reward_is_null_or_fails_the_trainers_request_and_is_never_0():
    sample = {"prompt": "p", "response": "4", "label": "4"}
    with client(RUBRIC) as server:
        scored = server.post("/score", json={"outputs": ["4"]}).json()["scores"][0]
        failed = server.post("/reward", json=sample)
    assert (scored["reward"], scored["criteria"][0]["reason"]) == (None, "no_judge: the scorer has no judge")
    assert (failed.status_code, "tone: no_judge" in failed.json()["error"]) == (503, True)
    with client(RUBRIC, unscored=-1.0) as server:
        assert server.post("/reward", json=sample).json() == -1.0


def test_outputs_that_the_judge_would_not_reach_in_time_are_refused_at_once(judge, tmp_path):
    judge.latency_s = 0.05
    with client(RUBRIC, judge_file(judge, tmp_path), deadline_s=0.5) as server:
        assert server.post("/score", json={"outputs": ["first"]}).status_code == 200
        judge.held_after = 1
        late = server.post("/score", json={"outputs": ["second"]}).json()["scores"][0]
        refused = server.post("/score", json={"outputs": [f"text {place}" for place in range(1000)]})
    assert late["criteria"][0]["reason"] == "deadline: the judge did not answer within 0.5 s"
    assert (refused.status_code, int(refused.headers["retry-after"]) >= 40) == (429, True)  # 1,000 x 0.05 s or more


WRONG = {
    "no JSON": ("/score", b"{", 400),
    "not a number": ("/score", b'{"outputs": [NaN]}', 400),
    "half a surrogate pair": ("/score", b'{"outputs": ["\\ud800"]}', 400),
    "no object": ("/score", b"[]", 422),
    "nothing to score": ("/score", b'{"outputs": []}', 422),
    "too many": ("/score", json.dumps({"outputs": ["x"] * 5000}).encode(), 422),
    "an unknown name": ("/score", b'{"outputs": ["x"], "rubric": "other"}', 422),
    "no text": ("/score", b'{"outputs": ["x", 3]}', 422),
    "lists of other lengths": ("/get_reward", b'{"query": ["a"], "prompts": []}', 422),
    "labels of another length": ("/get_reward", b'{"query": ["a"], "prompts": ["a"], "labels": []}', 422),
    "no response": ("/reward", b'{"prompt": "p"}', 422),
    "a huge number": ("/reward", b'{"prompt": 1e999, "response": "x"}', 400),
}


def test_each_wrong_request_is_answered_with_its_fault():
    with client(RUBRIC) as server:
        kind = {"content-type": "application/json"}
        answers = {name: server.post(path, content=body, headers=kind) for name, (path, body, _) in WRONG.items()}
        form = server.post("/score", content=b'{"outputs": ["x"]}', headers={"content-type": "text/plain"})
    assert {name: found.status_code for name, found in answers.items()} == {name: row[2] for name, row in WRONG.items()}
    assert all(found.json()["error"] for found in answers.values())
    assert form.status_code == 415


def test_a_token_is_taken_as_a_bearer_or_from_a_url_and_no_other():
    with client(RUBRIC, token="t" * 32) as server:
        bearer = {"Authorization": f"Bearer {'t' * 32}"}
        seen = [
            server.get("/health").status_code,
            server.get("/health", headers=bearer).status_code,
            server.get("/health", auth=("any", "t" * 32)).status_code,
            server.get("/health", auth=("any", "u" * 32)).status_code,
            server.get("/health", headers={"Authorization": "Basic !"}).status_code,
        ]
    assert seen == [401, 200, 200, 401, 401]


# -------- a server as a process
@contextmanager
def serving(folder: Path, judge: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `gradebook train serve`, with its port; killed at the end."""
    (folder / "rubric.json").write_text(json.dumps(RUBRIC), encoding="utf-8")
    words = ["train", "serve", "rubric.json", "--judge", judge.name, "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    with subprocess.Popen([sys.executable, "-m", "gradebook", *words], **pipes) as server:
        try:
            yield server, int(server.stdout.readline().split(":")[2].split("/")[0])
        finally:
            server.kill()
            server.communicate()


def body_of(texts: list[str]) -> str:
    """Request about texts that are right in any case."""
    return json.dumps({"outputs": [{"output": text, "reference": text} for text in texts]})


def ask(port: int, texts: list[str]) -> list[float | None]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/score", body_of(texts).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [each["reward"] for each in json.load(answer)["scores"]]


def ask_in_vain(port: int, texts: list[str]) -> None:
    with suppress(OSError, HTTPException):
        ask(port, texts)


def wait_for(is_true: Any) -> None:
    for _ in range(2000):
        if is_true():
            return
        time.sleep(0.01)
    pytest.fail("nothing came")


@pytest.mark.nightly
def test_a_server_that_is_killed_left_by_its_client_and_ended_loses_no_judgment(judge, tmp_path):
    texts = ["one", "two", "three", "four"]
    judge.held_after = 2
    with serving(tmp_path, judge_file(judge, tmp_path)) as (server, port):
        caller = threading.Thread(target=ask_in_vain, args=(port, texts))
        caller.start()
        wait_for(lambda: judge.in_flight and judge.request_count == 3)
        server.send_signal(signal.SIGKILL)
        caller.join()
    judge.held_after = None
    with serving(tmp_path, tmp_path / "judge.yaml") as (server, port):
        rewards = ask(port, texts)
        assert (None in rewards, judge.request_count) == (False, 5)  # only the one in flight is asked again
        gone = HTTPConnection("127.0.0.1", port)
        gone.request("POST", "/score", body_of(["five"]), {"Content-Type": "application/json"})
        gone.close()
        wait_for(lambda: judge.answered_count == 5)
        assert (ask(port, ["five"])[0] is None, judge.request_count) == (False, 6)
        judge.latency_s = 0.3
        last: list[float | None] = []
        caller = threading.Thread(target=lambda: last.extend(ask(port, ["six"])))
        caller.start()
        wait_for(lambda: judge.in_flight)
        server.send_signal(signal.SIGTERM)
        caller.join()
        assert (server.wait(30), None in last, len(last)) == (0, False, 1)
    with connect(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"), read_only=True) as lake:
        found = lake.execute("select count(*), count(distinct request_key) from judgments").fetchall()
    assert found == [(6, 6)]
