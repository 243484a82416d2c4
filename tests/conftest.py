"""One Prefect server for all tests that run a flow, and the command `gradebook` called as a person would."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import pytest

PREFECT_HOME = tempfile.mkdtemp(prefix="gradebook-prefect-")
with socket.socket() as _free:
    _free.bind(("127.0.0.1", 0))
    PREFECT_PORT = _free.getsockname()[1]
# Prefect reads its settings when it is imported: they stand here, before any test module is.
os.environ["PREFECT_HOME"] = PREFECT_HOME
os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{PREFECT_PORT}/api"
os.environ.pop("GRADEBOOK_LAKE", None)
# Prefect makes a dozen HTTP clients a run, and each reads all certificates there are, 35 ms long; here none is needed.
_CERTIFICATE = Path(certifi.where()).read_text(encoding="utf-8").partition("-----BEGIN")[2].partition("-----END")[0]
os.environ["SSL_CERT_FILE"] = f"{PREFECT_HOME}/one.pem"
Path(os.environ["SSL_CERT_FILE"]).write_text(f"-----BEGIN{_CERTIFICATE}-----END CERTIFICATE-----\n", encoding="ascii")

# What no test asks of the server, and costs as much as all else once it runs: schedules, automations, kept events.
_IDLE = ("SCHEDULER", "LATE_RUNS", "PAUSE_EXPIRATIONS", "TRIGGERS", "EVENT_PERSISTER", "FOREMAN", "REPOSSESSOR")
SERVER_SETTINGS = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _IDLE}


def pytest_unconfigure() -> None:
    shutil.rmtree(PREFECT_HOME, ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a name that spells out a set: its order differs from one process of pytest-xdist to the next."""
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec else ():
        if isinstance(value, set | frozenset) and len(value) > 1 and str(value) in item.name:
            raise pytest.UsageError(f"{item.nodeid}: found a set in its name, expected a list or tuple")


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[str]:
    """The address of a real Prefect server; its slow start is paid once."""
    import flows  # noqa: F401 - sets what the server reads
    from tasks.quality import warm_up

    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(PREFECT_PORT)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=os.environ | SERVER_SETTINGS, **quiet) as server:
        try:
            # While a thread imports it, a test's end would take back the filters of warnings that it sets.
            warm_up().join()
            _wait_until_healthy(os.environ["PREFECT_API_URL"])
            yield os.environ["PREFECT_API_URL"]
        finally:
            server.terminate()


def _wait_until_healthy(address: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"no Prefect server at {address}")


@dataclass(frozen=True)
class Finished:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Gradebook = Callable[..., Finished]


@pytest.fixture
def gradebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gradebook:
    """Call the command in this process, in an empty folder; no server is started for it."""
    from flows.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*words: str | Path) -> Finished:
        monkeypatch.setattr(sys, "argv", ["gradebook", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return Finished(code, out, err)

    return call


@pytest.fixture
def evaluate(gradebook: Gradebook, prefect_server: str) -> Gradebook:
    """`gradebook evaluate ... --json` with a Prefect server at hand."""

    def call(*words: str | Path) -> Finished:
        return gradebook("evaluate", *words, "--json")

    return call
