"""One Prefect server for all tests that run a flow, and the command `gradebook` called as a person would."""

import fcntl
import gc
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import certifi
import pytest
from hypothesis import settings

from tests.support.prefect_homes import SERVER, SERVER_SETTINGS, on_server

BROWSER = "tests/integration/browser/"
FORKED = "tests.support.forked"  # its modules share a process that has imported all, which takes seconds
TREES = "tests.support.source_trees"  # its modules share the parsed source
pytest_plugins = ["tests.support.cpu_budget"]

# No deadline: a machine that is busy fails no test. `make test-nightly` takes the other profile.
settings.register_profile("daily", deadline=None, max_examples=20)
settings.register_profile("nightly", deadline=None, max_examples=60)
settings.load_profile("daily")


def _free_port() -> int:
    """A port below those that the system gives out: one of them might be taken by the time the server starts."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise OSError("found no free port in 20000 to 31999")


# Workers of pytest-xdist take the home and the server of the process that starts them.
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not IS_WORKER:
    # Prefect reads its settings when it is imported: they are set before any test module is.
    os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="gradebook-prefect-")
    os.environ[SERVER] = f"http://127.0.0.1:{_free_port()}/api"
PREFECT_HOME = os.environ["PREFECT_HOME"]
for _name in [name for name in os.environ if name.startswith("PREFECT_") and name != "PREFECT_HOME"]:
    os.environ.pop(_name)  # no server but in tests marked `server`
for _name in (
    "GRADEBOOK_LAKE",
    *(f"GRADEBOOK_ALLOW_{_kind}" for _kind in ("KEYS", "FUNCTIONS", "FOLDERS", "PROGRAMS")),
):
    os.environ.pop(_name, None)
os.environ["XDG_CONFIG_HOME"] = f"{PREFECT_HOME}/config"  # no settings of the user who runs the tests
# Prefect makes a dozen HTTP clients a run, and each reads all certificates there are, 35 ms long; here none is needed.
_CERTIFICATE = Path(certifi.where()).read_text(encoding="utf-8").partition("-----BEGIN")[2].partition("-----END")[0]
os.environ["SSL_CERT_FILE"] = f"{PREFECT_HOME}/one.pem"
if not IS_WORKER:
    _ONE = f"-----BEGIN{_CERTIFICATE}-----END CERTIFICATE-----\n"
    Path(os.environ["SSL_CERT_FILE"]).write_text(_ONE, encoding="ascii")


def pytest_unconfigure() -> None:
    if not IS_WORKER:
        shutil.rmtree(PREFECT_HOME, ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a Prefect server without its mark, and a name that spells out a set: processes order it differently."""
    if "prefect_server" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("server"):
        raise pytest.UsageError(f"{item.nodeid}: found the fixture prefect_server, expected the mark `server` with it")
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec else ():
        if isinstance(value, set | frozenset) and len(value) > 1 and str(value) in item.name:
            raise pytest.UsageError(f"{item.nodeid}: found a set in its name, expected a list or tuple")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules unread that a tier has no test of, as each worker would import them: daily those of the browser.

    In the nightly tier they are those without any of its marks.
    """
    chosen = config.getoption("markexpr")
    if not collection_path.match("test_*.py"):
        return None
    if chosen.startswith("not"):
        return True if "browser" in chosen and BROWSER in collection_path.as_posix() else None
    if "nightly" not in chosen:
        return None
    marks = set(re.findall(r"\w+", chosen)) - {"and", "or", "not"}
    return None if any(mark in collection_path.read_text(encoding="utf-8") for mark in marks) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, a third of the time, and keep the collected tests out of all later ones."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@cache
def _group_of(root: Path, module: str) -> str:
    """Name of what one worker runs together."""
    if module.startswith(BROWSER):
        return BROWSER
    text = (root / module).read_text(encoding="utf-8")
    return next((helper for helper in (FORKED, TREES) if helper in text), module)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker whole modules, which share their fixtures; those of the browser, forks and source share more.

    The order is that of the collection: at the end come small tests of units, and the workers end together.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByModule(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group_of(config.rootpath, nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return ByModule(config, log)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[str]:
    """The address of a real Prefect server; its slow start is paid once by all workers."""
    from gradebook import flows  # noqa: F401 - sets what the server reads

    _begin_prefect()
    with _shared_server(os.environ[SERVER]):
        yield os.environ[SERVER]


@pytest.fixture(autouse=True)
def _api_of_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Configure the Prefect API in tests marked `server`, as PREFECT_API_URL would; the others run without."""
    if not request.node.get_closest_marker("server"):
        yield
        return
    with on_server(request.getfixturevalue("prefect_server")):
        yield


@contextmanager
def _shared_server(address: str) -> Iterator[None]:
    """Run the server, unless another worker does; whoever started it ends it, when no other worker uses it."""
    with Path(PREFECT_HOME, "start.lock").open("w") as start, Path(PREFECT_HOME, "use.lock").open("w") as use:
        fcntl.flock(start, fcntl.LOCK_EX)
        fcntl.flock(use, fcntl.LOCK_SH)  # waits while another worker ends it
        if _is_healthy(address):
            fcntl.flock(start, fcntl.LOCK_UN)
            yield
            return
        log = Path(PREFECT_HOME, "server.log")
        for _ in range(3):
            with _begun_server(log) as server:
                if _becomes_healthy(server, address):
                    fcntl.flock(start, fcntl.LOCK_UN)
                    yield
                    fcntl.flock(use, fcntl.LOCK_EX)
                    return
    raise TimeoutError(f"no Prefect server at {address}: {log.read_text(errors='replace')[-2_000:]}")


def _begin_prefect() -> None:
    """Import Prefect as a command does, but outside any test: its log would go on to what one test captured, closed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
        import prefect.main  # noqa: F401


@contextmanager
def _begun_server(log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    port = str(urlsplit(os.environ[SERVER]).port)
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port]
    with (
        log.open("ab") as said,
        subprocess.Popen(command, env=os.environ | SERVER_SETTINGS, stdout=said, stderr=said) as server,
    ):
        try:
            yield server
        finally:
            server.terminate()


def _becomes_healthy(server: "subprocess.Popen[bytes]", address: str) -> bool:
    for _ in range(300):
        if server.poll() is not None:
            return False
        if _is_healthy(address):
            return True
        time.sleep(0.2)
    return False


def _is_healthy(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
        return bool(answer.status == 200)
    return False


@dataclass(frozen=True)
class Finished:
    """Exit code and output of a finished command."""

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
    from gradebook.flows.cli import main

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
def evaluate(gradebook: Gradebook) -> Gradebook:
    """`gradebook evaluate ... --json`, without the page, which takes longer than a small run."""

    def call(*words: str | Path) -> Finished:
        return gradebook("evaluate", *words, "--no-report", "--json")

    return call
