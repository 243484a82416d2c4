"""Process that checks great-expectations suites and draws charts, kept for later commands.

The import of great-expectations takes seconds, and the start of Vega half a second. A process of its own has them
beside the command's other imports, and once for all commands of some minutes. Without the process, as in a worker of
Prefect, both are done in place.

    python -m gradebook.tasks.stages.suite_process STATE_FILE IDLE_S
"""

import gc
import hashlib
import json
import os
import secrets
import socket
import socketserver
import sys
import threading
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.tasks.stages.expectations import check_suite, import_great_expectations
from gradebook.tasks.system.kept_process import (
    LEAST_IDLE_S,
    KeptProcess,
    claim_state,
    find_process,
    other_state,
    read_answer,
    start_process,
    state_file,
    write_state,
)
from gradebook.tasks.system.lazy_imports import deferred_imports
from gradebook.tasks.system.listeners import has_room, read_line
from gradebook.tasks.workspace.timings import add_cpu_s

KIND = "suites"
AUTH = "GRADEBOOK_SUITES_AUTH"
MOST_CONTENT_BYTES = 2**30  # of a table
EMPTY_CHART = '{"data": {"values": []}, "mark": "point"}'
LOOK_S = 0.5
UNUSED_OF_NUMPY = ("numpy.f2py", "numpy.testing")  # scipy takes all names of numpy
PACKAGES = ("gradebook", "great_expectations", "pandas", "pyarrow", "vl_convert_python")
_STARTING = threading.Lock()
_states: list[Path] = []  # the state file of the process that this command uses; empty: checks are done in place


def use_suite_process(home: Path) -> None:
    """Let `check_in_process` and charts use this person's process, and start it if it does not run. Returns at once."""
    from gradebook.tasks.reporting.drawing.charts import use_drawer

    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _states[:] = [state_file(home, KIND, _digest())]
    use_drawer(_draw_in_process)
    threading.Thread(target=_found_or_started, args=_states, daemon=True).start()


def warm_up(*, has_page: bool = True) -> threading.Thread:
    """Import in the background, beside the first stages, what later ones need: a query runs without Python's lock.

    That is scipy, what draws a page, and great-expectations if no process has it.
    """
    thread = threading.Thread(target=_import_ahead, args=[has_page], name="import ahead", daemon=True)
    thread.start()
    return thread


def _import_ahead(has_page: bool) -> None:
    if not _states:
        import_great_expectations()
    with deferred_imports(*UNUSED_OF_NUMPY):
        import scipy.special  # noqa: F401 - intervals
    if has_page:
        from gradebook.tasks.reporting.page import compile_templates

        compile_templates()


def check_in_process(suite: str, table: pa.Table) -> list[dict[str, Any]]:
    """As `check_suite`, by the process of `use_suite_process`; in place if there is none or it does not answer."""
    for state in _states:
        with suppress(OSError, ValueError):
            return _check(state, suite, table)
    return check_suite(suite, table)


def _draw_in_process(specification: str) -> str:
    """Raises `OSError`, `ValueError` if the process does not answer."""
    for state in _states:
        svg: str = _ask(_found_or_started(state), {"chart": True}, specification.encode())["svg"]
        return svg
    raise OSError("no process")


def _found_or_started(state: Path) -> KeptProcess | None:
    with _STARTING:
        if running := find_process(state):
            return running
        program = ["-m", "gradebook.tasks.stages.suite_process"]
        with suppress(OSError, ValueError):
            return read_answer(start_process(state, program, variables={AUTH: secrets.token_urlsafe(32)}))
    return None


def _check(state: Path, suite: str, table: pa.Table) -> list[dict[str, Any]]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    outcomes: list[dict[str, Any]] = _ask(_found_or_started(state), {"suite": suite}, sink.getvalue())["outcomes"]
    return outcomes


def _ask(process: KeptProcess | None, asked: dict[str, Any], content: pa.Buffer | bytes) -> dict[str, Any]:
    """Raises `OSError`, `ValueError` if the process does not answer."""
    if process is None:
        raise OSError("no process")
    header = {"auth": process.auth, **asked, "byte_count": len(content)}
    with socket.create_connection(("127.0.0.1", process.port)) as connection:
        connection.sendall(json.dumps(header).encode() + b"\n")
        connection.sendall(content)
        with connection.makefile("rb") as answer:
            found: dict[str, Any] = json.load(answer)
    add_cpu_s(found["cpu_s"])
    return found


def _digest() -> str:
    """Digest of what the process depends on; 12 hex digits."""
    code = b"".join(Path(__file__).with_name(name).read_bytes() for name in ("expectations.py", "suite_process.py"))
    versions = [metadata.version(name) for name in PACKAGES]
    parts = [sys.executable, os.environ.get("PYTHONPATH", ""), *versions, hashlib.blake2b(code).hexdigest()]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    used_at = time.monotonic()
    busy_count = 0

    def verify_request(self, _request: Any, _client_address: Any) -> bool:
        return has_room()


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Answer a table with the outcomes of its suite, or a chart's specification with its drawing.

        Whoever does not know the password gets nothing.
        """
        header = read_line(self.connection, self.rfile, os.environ[AUTH])
        if header is None or not 0 <= int(header["byte_count"]) <= MOST_CONTENT_BYTES:
            return
        self.server.busy_count += 1
        try:
            content = self.rfile.read(header["byte_count"])
            if "chart" in header:
                found: dict[str, Any] = {"svg": _drawn(content.decode())}
            else:
                with pa.ipc.open_stream(content) as stream:
                    found = {"outcomes": check_suite(header["suite"], stream.read_all())}
            self.wfile.write(json.dumps(found | {"cpu_s": time.thread_time()}).encode())
        finally:
            self.server.used_at = time.monotonic()
            self.server.busy_count -= 1


def _drawn(specification: str) -> str:
    from gradebook.tasks.reporting.drawing.charts import draw_svg

    return draw_svg(specification)


def main() -> None:
    """Check suites until none was asked for during IDLE_S."""
    state_path, idle_s = Path(sys.argv[1]), max(float(sys.argv[2]), LEAST_IDLE_S)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output must not be read as the answer
    os.umask(0o077)
    state = claim_state(state_path)
    if state is None:
        print(other_state(state_path), file=answers, flush=True)
        return
    with _Server(("127.0.0.1", 0), _Handler) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        print(write_state(state, address, os.environ[AUTH], idle_s), file=answers, flush=True)
        answers.close()
        import_great_expectations()
        gc.freeze()
        threading.Thread(target=server.serve_forever, args=[LOOK_S], daemon=True).start()
        _drawn(EMPTY_CHART)  # starts Vega; suites may be checked meanwhile
        server.used_at = time.monotonic()
        while server.busy_count or time.monotonic() - server.used_at < idle_s:
            time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
