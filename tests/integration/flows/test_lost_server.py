"""Prefect's server that goes away in the middle of a run: the run is published all the same, and nothing paid twice."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from gradebook import flows
from gradebook.flows.run import report_lost_server
from gradebook.rubrics.model.errors import UnfinishedError
from tests.support.loopback_judge import LoopbackJudge
from tests.support.prefect_homes import SERVER_SETTINGS
from tests.support.samples import query, write_outputs, write_rubric

CASES, IN_FLIGHT = 24, 4
REQUEST = httpx.Request("GET", "http://127.0.0.1/api/health")


class Server:
    """A Prefect server with a database and a port of its own, which can be killed and started again."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/api"
        self.settings = {"PREFECT_HOME": str(home), "PREFECT_API_URL": self.address}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it answers some seconds later."""
        words = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
        settings = os.environ | flows.PREFECT_SETTINGS | SERVER_SETTINGS | self.settings
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self._process = subprocess.Popen(words, env=settings, **quiet)

    def wait(self) -> None:
        """Return when it answers."""
        for _ in range(1_800):
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError(f"no Prefect server at {self.address}")

    def kill(self) -> None:
        """Kill it and what it started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "home").mkdir()
    found = Server(tmp_path / "home")
    found.start()
    found.wait()
    yield found
    found.kill()


@pytest.fixture
def judge() -> Iterator[LoopbackJudge]:
    with LoopbackJudge(latency_s=0.3) as found:
        yield found


@pytest.fixture
def start(server: Server, judge: LoopbackJudge, tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Start an evaluation whose Prefect server that is."""
    write_outputs(tmp_path / "outputs.jsonl", count=CASES, models=("one",))
    write_rubric(tmp_path / "rubric.yaml")
    settings = f"model: gpt-4o-mini\nbase_url: {judge.base_url}\nmax_in_flight: {IN_FLIGHT}\n"
    (tmp_path / "judge.yaml").write_text(settings, encoding="utf-8")
    words = ["outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml", "--run-id", "one", "--json"]
    root = {"PYTHONPATH": str(Path(flows.__file__).parents[2]), "OPENAI_API_KEY": "none"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def call(**more: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "gradebook", "evaluate", *words]
        return subprocess.Popen(command, cwd=tmp_path, env=os.environ | server.settings | root | more, **pipes)

    return call


def wait_for(judge: LoopbackJudge, count: int, process: "subprocess.Popen[str]") -> None:
    while judge.request_count < count and process.poll() is None:
        time.sleep(0.005)


def ledger(gradebook) -> list[dict[str, int]]:
    counts = (
        "select count(*) n, count(distinct request_key) k, (select count(*) from runs where status = 'published') r"
    )
    return query(gradebook, f"{counts} from judgments")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_whose_server_is_gone_for_a_while_is_published(start, server, judge, gradebook):
    process = start()
    wait_for(judge, 8, process)
    server.kill()
    server.start()  # for the time of its start nobody answers
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    assert (json.loads(out)["output_count"], judge.request_count) == (CASES, CASES)
    assert ledger(gradebook) == [{"n": CASES, "k": CASES, "r": 1}]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_whose_server_stays_away_ends_as_the_lake_says_and_is_read_back(start, server, judge, gradebook):
    process = start(PREFECT_CLIENT_MAX_RETRIES="1")
    wait_for(judge, 8, process)
    server.kill()
    _, err = process.communicate(timeout=100)  # what it would tell the server is not waited for
    is_unfinished = "does not answer (ConnectError); finished judgments are stored" in err
    published = query(gradebook, "select count(*) n from runs where status = 'published'")[0]["n"]
    assert (process.returncode, is_unfinished) == ((0, False) if published else (3, True)), err
    server.start()
    server.wait()
    out, err = start().communicate(timeout=150)
    assert json.loads(out)["output_count"] == CASES, err
    assert judge.request_count == CASES
    assert ledger(gradebook) == [{"n": CASES, "k": CASES, "r": 1}]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (httpx.ReadTimeout("no word"), "does not answer (ReadTimeout); finished judgments are stored"),
        (httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(503)), "answered HTTP 503; finished"),
        (
            RuntimeError("Failed to reach API at http://127.0.0.1:9/api/"),
            "does not answer; finished judgments are stored",
        ),
        (
            RuntimeError("Timed out while attempting to connect to ephemeral Prefect API server."),
            "Prefect's server does not answer; finished judgments are stored",
        ),
    ],
    ids=["late", "busy", "never there", "not started"],
)
def test_what_prefects_client_says_of_its_server_is_told_in_a_sentence(error: Exception, told: str):
    with pytest.raises(UnfinishedError) as raised, report_lost_server():
        raise error
    assert told in str(raised.value)


def test_another_error_of_a_flow_is_none_of_the_server():
    with pytest.raises(RuntimeError, match="another"), report_lost_server():
        raise RuntimeError("another")
