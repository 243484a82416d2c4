"""Suites checked and charts drawn by a process that stays for later commands, see `suite_server`.

The import of great-expectations takes seconds, and the start of Vega half a second. A process of its own has them
beside the command's other imports, and once for all commands of some minutes. Without the process, as in a worker of
Prefect, both are done in place.
"""

import hashlib
import json
import os
import secrets
import socket
import sys
import threading
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.tasks.stages.expectations import check_suite, import_great_expectations
from gradebook.tasks.stages.suite_server import AUTH
from gradebook.tasks.system.kept_process import (
    KeptProcess,
    find_process,
    inherited,
    read_answer,
    start_process,
    state_file,
)
from gradebook.tasks.system.lazy_imports import deferred_imports
from gradebook.tasks.workspace.timings import add_cpu_s

KIND = "suites"
UNUSED_OF_NUMPY = ("numpy.f2py", "numpy.testing")  # scipy takes all names of numpy
PACKAGES = ("gradebook", "great_expectations", "pandas", "pyarrow", "vl_convert_python")
_STARTING = threading.Lock()
_states: list[Path] = []  # the state file of the process that this command uses; empty: checks are done in place


def use_suite_process(home: Path) -> None:
    """Let `check_in_process` and charts use this person's process, started by the first of them if it does not run."""
    from gradebook.tasks.reporting.drawing.charts import use_drawer

    with suppress(OSError):  # then there is no process, and suites are checked in place
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _states[:] = [state_file(home, KIND, _digest())]
    use_drawer(_draw_in_process)


def start_suite_process() -> None:
    """Start the process of `use_suite_process` before it is needed, if it does not run. Returns at once."""
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
    import_late(has_page=has_page)


def import_late(*, has_page: bool = True) -> None:
    """Import scipy, and what draws a page."""
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
        program = ["-m", "gradebook.tasks.stages.suite_server"]
        with suppress(OSError, ValueError):
            return read_answer(
                start_process(state, program, environment=inherited() | {AUTH: secrets.token_urlsafe(32)})
            )
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
    code = b"".join(Path(__file__).with_name(name).read_bytes() for name in ("expectations.py", "suite_server.py"))
    versions = [metadata.version(name) for name in PACKAGES]
    parts = [sys.executable, os.environ.get("PYTHONPATH", ""), *versions, hashlib.blake2b(code).hexdigest()]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()
