"""The Prefect server that commands share: who starts it, who finds it, who may ask it, and when it ends."""

import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradebook import flows
from tests.support.loopback_judge import LoopbackJudge
from tests.support.prefect_homes import SERVER_SETTINGS, embedded, have_ended, processes_of
from tests.support.samples import write_outputs, write_rubric

SCRIPT = str(Path(flows.__file__).with_name("server") / "process.py")
GRADEBOOK = [sys.executable, "-m", "gradebook.flows.cli"]
EVALUATE = [*GRADEBOOK, "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml"]
# The package under test, also where another checkout is installed.
ROOT = {"PYTHONPATH": str(Path(flows.__file__).parents[2])}
pytestmark = pytest.mark.server


def settings_of(folder: Path) -> dict[str, str]:
    return embedded(folder) | ROOT | SERVER_SETTINGS


def run(folder: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = settings_of(folder) | more
    command = [*GRADEBOOK, *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=150, check=False
    )


def wait_until(is_so: Callable[[], bool], timeout_s: float = 150) -> bool:
    end = time.monotonic() + timeout_s
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
    return is_so()


def state_of(folder: Path) -> dict[str, Any]:
    (state,) = (folder / "home").glob("gradebook-server-*.json")
    return json.loads(state.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose Prefect home has a server that `gradebook server start` left running."""
    folder = tmp_path_factory.mktemp("shared")
    finished = run(folder, "server", "start", "--json", GRADEBOOK_SERVER_IDLE_S="600")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["address"] == state_of(folder)["address"]
    yield folder
    run(folder, "server", "stop")
    assert have_ended(str(folder / "home"))


@pytest.mark.slow
def test_a_later_command_finds_the_server_and_leaves_it_running(started):
    before = state_of(started)
    finished = run(started, "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml")
    assert finished.returncode == 0, finished.stderr
    assert state_of(started) == before
    status = run(started, "server", "status", "--json")
    (server,) = json.loads(status.stdout)["servers"]
    assert (server["address"], server["answers"], status.returncode) == (before["address"], True, 0)
    assert before["auth"] not in status.stdout


@pytest.mark.slow
def test_only_who_can_read_its_file_may_ask_the_server(started):
    (state,) = (started / "home").glob("gradebook-server-*.json")
    private = [state, state.with_suffix(".log"), started / "home" / "prefect.db"]
    assert [oct(stat.S_IMODE(path.stat().st_mode)) for path in private] == ["0o600"] * 3
    address = state_of(started)["address"].removeprefix("http://").removesuffix("/api")
    for named, status in (({}, 401), ({"Origin": "http://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
        connection = http.client.HTTPConnection(address, timeout=20)
        headers = {"Content-Type": "application/json"} | named
        connection.request("POST", "/api/block_documents/filter", body='{"include_secrets": true}', headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, answer.getheader("access-control-allow-origin")) == (status, None)
        connection.close()


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads a process's environment in /proc")
def test_the_server_has_no_key_of_a_judge(tmp_path):
    keys = {"OPENAI_API_KEY": "sk-canary", "PGPASSWORD": "pg-canary"}
    run(tmp_path, "server", "start", GRADEBOOK_SERVER_IDLE_S="600", **keys)
    environment = Path(f"/proc/{state_of(tmp_path)['process_id']}/environ").read_bytes()
    run(tmp_path, "server", "stop")
    assert b"PREFECT_HOME" in environment and b"canary" not in environment


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")
def test_the_server_of_a_killed_command_ends_when_it_is_idle(tmp_path):
    home = str(tmp_path / "home")
    environment = settings_of(tmp_path)
    with subprocess.Popen(EVALUATE, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as command:
        is_begun = wait_until(lambda: any(SCRIPT in words for words in processes_of(home)))
        command.send_signal(signal.SIGKILL)
    assert is_begun
    assert have_ended(home), processes_of(home)


@pytest.mark.parametrize("end", ["raise SystemExit(2)", "import os; os._exit(2)"])
def test_the_server_of_a_command_that_ends_before_it_needs_one_ends_unused(tmp_path, end):
    # As `gradebook evaluate` does: started while the request is checked, which is wrong.
    code = f"from gradebook.flows.server.shared import start_ahead; start_ahead(); {end}"
    line, environment = [sys.executable, "-W", "error", "-c", code], settings_of(tmp_path) | {"PREFECT_X": "\udcff"}
    finished = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (2, "")
    home = tmp_path / "home"
    assert [*home.glob("gradebook-server-*.log")] and have_ended(str(home)), processes_of(str(home))
    assert not [*home.glob("gradebook-server-*.json")]


def test_a_dry_run_and_a_home_without_a_name_start_no_server(tmp_path):
    line = [sys.executable, "-m", "gradebook", "evaluate", "outputs.jsonl", "--rubric", "missing.yaml"]
    environment = settings_of(tmp_path)
    for more, named in ((["--dry-run"], {}), ([], {"PREFECT_HOME": "~nobody-at-all/home"})):
        given = {"cwd": tmp_path, "env": environment | named, "capture_output": True, "text": True}
        finished = subprocess.run([*line, *more], check=False, **given)
        assert (finished.returncode, "gradebook: missing.yaml: found" in finished.stderr) == (2, True), finished.stderr
    assert not (tmp_path / "home").exists()


ENDED_BEFORE_ASKED = """
import os, signal, time
from gradebook.flows.server.shared import KIND, SharedServer, server_answers
from gradebook.tasks.system.folder_settings import prefect_home
from gradebook.tasks.system.kept_process import find_processes, stop_processes
stop_processes(prefect_home(), KIND)
server = SharedServer(prefect_home())
server.announce()
(found,) = find_processes(prefect_home(), KIND)
os.kill(found.process_id, signal.SIGKILL)
while [*find_processes(prefect_home(), KIND)]:
    time.sleep(0.01)
server.wait()
(again,) = find_processes(prefect_home(), KIND)
print(again.address == found.address, again.process_id != found.process_id, server_answers(again))
"""


@pytest.mark.slow
def test_a_server_that_ends_between_its_start_and_being_asked_is_started_again(started):
    line, environment = [sys.executable, "-c", ENDED_BEFORE_ASKED], settings_of(started)
    environment |= {"GRADEBOOK_SERVER_IDLE_S": "600"}
    done = subprocess.run(line, cwd=started, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.stdout == "True True True\n", done.stderr


@pytest.mark.nightly
@pytest.mark.slow
def test_two_first_commands_at_once_share_one_server(tmp_path):
    environment = settings_of(tmp_path) | {"GRADEBOOK_SERVER_IDLE_S": "600"}
    start = [*GRADEBOOK, "server", "start", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    commands = [subprocess.Popen(start, cwd=tmp_path, env=environment, **pipes) for _ in range(2)]
    ends = [command.communicate(timeout=150) for command in commands]
    run(tmp_path, "server", "stop")
    assert [command.returncode for command in commands] == [0, 0], ends
    assert len({json.loads(out)["address"] for out, _ in ends}) == 1


@pytest.mark.nightly
def test_where_a_profile_names_a_server_none_is_started(tmp_path):
    (tmp_path / "home").mkdir()
    profile = 'active = "far"\n[profiles.far]\nPREFECT_API_URL = "http://prefect.example/api"\n'
    (tmp_path / "home" / "profiles.toml").write_text(profile, encoding="utf-8")
    assert json.loads(run(tmp_path, "server", "start", "--json").stdout) == {"address": None}
    assert run(tmp_path, "server", "status").returncode == 1


@pytest.mark.nightly
@pytest.mark.slow
def test_a_server_that_cannot_start_is_an_error_that_names_its_log(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "prefect.db").write_text("no database, " * 999, encoding="utf-8")
    finished = run(tmp_path, "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml")
    (log,) = (tmp_path / "home").glob("gradebook-server-*.log")
    assert finished.returncode == 3
    assert finished.stderr.endswith(f"gradebook: Prefect's server did not start; its log is {log}\n"), finished.stderr
    assert "not a database" in log.read_text(encoding="utf-8")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_server_killed_during_a_run_is_started_again_and_costs_nothing(tmp_path):
    environment = settings_of(tmp_path)
    write_rubric(tmp_path / "rubric.yaml")
    write_outputs(tmp_path / "outputs.jsonl", count=24, models=("one",))
    with LoopbackJudge(latency_s=0.3) as judge:
        settings = f"model: gpt-4o-mini\nbase_url: {judge.base_url}\nmax_in_flight: 4\n"
        (tmp_path / "judge.yaml").write_text(settings, encoding="utf-8")
        command = [*EVALUATE, "--judge", "judge.yaml", "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=tmp_path, env=environment | {"OPENAI_API_KEY": "none"}, **pipes)
        assert wait_until(lambda: judge.request_count >= 8 or process.poll() is not None)
        os.kill(state_of(tmp_path)["process_id"], signal.SIGKILL)
        out, err = process.communicate(timeout=150)
        assert process.returncode == 0, err
        assert (json.loads(out)["output_count"], judge.request_count) == (24, 24)


def test_a_lake_that_cannot_be_made_starts_no_server(tmp_path):
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    finished = run(tmp_path, *EVALUATE[3:], "--lake", "sqlite:taken/catalog.sqlite")
    assert (finished.returncode, "taken" in finished.stderr) == (2, True), finished.stderr
    assert list((tmp_path / "home").glob("gradebook-*")) == []


def test_a_home_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    finished = run(tmp_path, *EVALUATE[3:], PREFECT_HOME=str(tmp_path / "taken" / "home"))
    words = f"gradebook: PREFECT_HOME: found {tmp_path}/taken/home, which can't be made ("
    assert (finished.returncode, finished.stderr[: len(words)]) == (2, words)
