"""A folder of others whose files would choose Prefect's server, and with it who gets the operator's key."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import prefect
import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.prefect_settings import refuse_folder_settings
from tests.support.nightly import nightly
from tests.support.samples import write_outputs

ROOT = Path(__file__).parents[4]


@pytest.fixture
def sink() -> Iterator[tuple[str, list[str]]]:
    """Address of a server, and the keys that it was sent."""
    keys: list[str] = []

    class Sink(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(str(self.headers.get("Authorization")))
            self.send_error(500)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/api", keys
        server.shutdown()
        thread.join()


def run(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    settings |= {"PREFECT_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "PREFECT_API_KEY": "pnu_canary"}
    settings |= {"PREFECT_CLIENT_MAX_RETRIES": "0"} | variables
    line = [sys.executable, "-m", "gradebook", *words]
    return subprocess.run(line, cwd=folder, env=settings, capture_output=True, text=True, timeout=100, check=False)


FILES = {
    "prefect.toml": '[api]\nurl = "{}"\n',
    "pyproject.toml": '[project]\nname = "x"\n[tool."\\u0070refect".api]\nurl = "{}"\n',
    ".env": "OTHER=1\nexport prefect_api_url='{}'\n",
}


@pytest.mark.parametrize("name", ["prefect.toml", *nightly(list(FILES)[1:])])
def test_a_planted_file_of_settings_sends_no_key(tmp_path, sink, name):
    address, keys = sink
    write_outputs(tmp_path / "outputs.jsonl")
    (tmp_path / name).write_text(FILES[name].format(address), encoding="utf-8")
    words = ["evaluate", "outputs.jsonl", "--rubric", "general_answer"]
    refused = run(tmp_path, *words)
    message = f"{name}: found settings of Prefect in the current folder, expected them in the environment"
    assert (refused.returncode, message in refused.stderr, keys) == (2, True, []), refused.stderr
    assert not (tmp_path / "home").exists()
    if name == "prefect.toml":  # the settings are those that Prefect would take
        run(tmp_path, *words, GRADEBOOK_ALLOW_FOLDERS=str(tmp_path))
        assert keys == ["Bearer pnu_canary"]


@pytest.mark.parametrize(
    ("name", "text", "is_refused"),
    [
        ("pyproject.toml", '[tool.ruff]\nline-length = 99\n[project]\nname = "prefect"\n', False),
        ("pyproject.toml", "[tool]\nprefect.logging.level = 'DEBUG'\n", True),
        (".env", "OPENAI_BASE_URL=http://localhost\n", False),
        (".env", "OTHER='x'; Prefect_API_KEY=x\n", True),
        ("prefect.toml", "", False),
        ("prefect.toml", "no TOML", True),
    ],
)
def test_only_settings_of_prefect_are_refused_and_only_before_it_has_read_them(
    tmp_path, monkeypatch, name, text, is_refused
):
    (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "prefect", prefect)
    refuse_folder_settings({})
    monkeypatch.delitem(sys.modules, "prefect")
    refuse_folder_settings({"GRADEBOOK_ALLOW_FOLDERS": str(tmp_path.parent)})
    with pytest.raises(InputError, match=name) if is_refused else nullcontext():
        refuse_folder_settings({})
