"""The process that checks suites for later commands: same findings, private, and a kill of it costs nothing."""

import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.reporting.drawing import charts
from gradebook.tasks.reporting.drawing.charts import draw_svg
from gradebook.tasks.stages import suite_process
from gradebook.tasks.stages.expectations import check_suite
from gradebook.tasks.stages.suite_process import KIND, check_in_process, use_suite_process
from gradebook.tasks.system.kept_process import KeptProcess, find_processes, stop_processes

VERDICT = {"run_id": "r", "criterion_id": "c", "method": "check", "level_id": "pass", "is_replayed": False}
BROKEN = pa.Table.from_pylist([VERDICT | {"output_id": "a", "status": "scored", "score": 1.5}], schema=VERDICT_SCHEMA)
CHART = {"data": {"values": [{"x": 1}, {"x": 2}]}, "mark": "bar", "encoding": {"x": {"field": "x"}}}
pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose process the checks of these tests use; it takes seconds to start, and is started when needed."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(Path(suite_process.__file__).parents[3]))
        patched.setenv("OPENAI_API_KEY", "sk-canary")
        patched.setattr(suite_process, "_states", [])
        use_suite_process(folder)
        yield folder
        stop_processes(folder, KIND)


def running(home: Path) -> KeptProcess:
    (process,) = find_processes(home, KIND)
    return process


def test_the_process_finds_what_a_check_in_place_finds_and_a_killed_one_is_started_again(home):
    in_place = check_suite("verdicts", BROKEN)
    assert [row["is_met"] for row in in_place].count(False) == 1
    assert check_in_process("verdicts", BROKEN) == in_place
    first = running(home)
    assert first.process_id != os.getpid()
    os.kill(first.process_id, signal.SIGKILL)
    assert check_in_process("verdicts", BROKEN) == in_place
    assert check_in_process("verdicts", BROKEN) == in_place
    assert running(home).process_id != first.process_id


def test_the_process_draws_what_is_drawn_in_place_and_loads_no_library_of_other_engines(home):
    assert check_in_process("verdicts", BROKEN)
    elsewhere = suite_process._draw_in_process(json.dumps(CHART))
    assert elsewhere == draw_svg(CHART)
    assert elsewhere.startswith("<svg")
    assert running(home).process_id != os.getpid()
    loaded = Path(f"/proc/{running(home).process_id}/maps")
    if loaded.exists():
        libraries = loaded.read_text(encoding="utf-8")
        assert "/pandas/" in libraries
        assert not [name for name in ("/sqlalchemy/", "/_duckdb", "/pyodbc", "/rpds") if name in libraries]


def test_a_chart_that_cannot_be_sent_or_drawn_there_is_drawn_in_place(home, monkeypatch):
    monkeypatch.setattr(charts, "_specification", lambda *_: CHART)
    drawn = str(charts.draw("any", {}))
    stop_processes(home, KIND)
    monkeypatch.setattr(suite_process, "_states", [])  # a later command without the process
    assert str(charts.draw("any", {})) == drawn
    with pytest.raises(ValueError, match="(?s)."):
        charts.draw_svg({"mark": "nothing that Vega knows"})


def test_the_process_answers_only_who_can_read_its_file_and_has_no_key(home):
    check_in_process("verdicts", BROKEN)
    process = running(home)
    (state,) = home.glob("*.json")
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    for header in (b"", b"[]\n", json.dumps({"auth": "x", "suite": "verdicts", "byte_count": 0}).encode() + b"\n"):
        with socket.create_connection(("127.0.0.1", process.port)) as connection:
            connection.sendall(header)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
    with socket.create_connection(("127.0.0.1", process.port)) as slow:
        slow.sendall(b'{"auth"')  # and no more: closed before its header is whole
        assert slow.recv(100) == b""
    assert len(check_in_process("verdicts", BROKEN)) > 0
    environment = Path(f"/proc/{process.process_id}/environ")
    if environment.exists():
        assert b"canary" not in environment.read_bytes()
