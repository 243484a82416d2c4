"""Prefect's server as a command's own process: when it is wanted, and that it never stays behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradebook import flows
from tests.support.prefect_homes import embedded, processes_of

SCRIPT = Path(flows.__file__).with_name("server") / "process.py"
COMMAND = [sys.executable, "-m", "gradebook.flows.cli", "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml"]
# The package under test, also where another checkout is installed.
ROOT = {"PYTHONPATH": str(Path(flows.__file__).parents[2])}
QUIET = {"PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL", "PREFECT_LOGGING_LEVEL": "CRITICAL"}
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def own_server(folder: Path) -> "subprocess.Popen[str]":
    (folder / "home").mkdir(exist_ok=True)
    settings = embedded(folder) | flows.PREFECT_SETTINGS | QUIET
    return subprocess.Popen([sys.executable, "-P", SCRIPT], cwd=folder, env=settings, **PIPES)


def wait_until(is_so, timeout_s: float = 60) -> bool:
    end = time.monotonic() + timeout_s
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(is_so())


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")
def test_a_killed_command_leaves_no_server_behind(tmp_path):
    home = str(tmp_path / "home")
    with subprocess.Popen(COMMAND, cwd=tmp_path, env=embedded(tmp_path) | ROOT, stderr=subprocess.DEVNULL) as command:
        is_begun = wait_until(lambda: any(str(SCRIPT) in words for words in processes_of(home)))
        command.send_signal(signal.SIGKILL)
    assert is_begun
    assert wait_until(lambda: processes_of(home) == [], timeout_s=15), processes_of(home)


@pytest.mark.slow
@pytest.mark.server
def test_two_first_starts_at_once_on_one_home_share_its_database(tmp_path):
    with own_server(tmp_path) as one, own_server(tmp_path) as other:
        said = [(server.stdout.readline(), server.stdout.readline()) for server in (one, other)]
        assert [ready for _, ready in said] == ["ready\n", "ready\n"]
        assert len({address for address, _ in said}) == 2
        ends = [server.communicate(timeout=30) for server in (one, other)]
    assert ends == [("", ""), ("", "")]


@pytest.mark.server
def test_where_a_profile_names_a_server_none_is_started(tmp_path):
    (tmp_path / "home").mkdir()
    profile = 'active = "far"\n[profiles.far]\nPREFECT_API_URL = "http://prefect.example/api"\n'
    (tmp_path / "home" / "profiles.toml").write_text(profile, encoding="utf-8")
    with own_server(tmp_path) as server:
        assert server.stdout.read() == "\n"
    assert server.returncode == 0


@pytest.mark.slow
@pytest.mark.server
def test_a_server_that_cannot_start_is_told_in_a_sentence(tmp_path):
    settings = embedded(tmp_path) | ROOT
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "prefect.db").write_text("no database, " * 999, encoding="utf-8")
    ended = subprocess.run(
        COMMAND, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 3
    assert ended.stderr.endswith("gradebook: Prefect's server did not start; what it said stands above\n"), ended.stderr
