"""A process that calls functions of users, seen from the run: what it is asked, what it answers, how it ends."""

import json
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.methods import FunctionMethod
from gradebook.tasks.runs.function_settings import FunctionSettings
from gradebook.tasks.system.processes import end_process, start_python

LONGEST_LINE = 100_000
START_S = 30.0  # what a process may take to start, or to take in what it is sent
WORKER = "gradebook.tasks.scoring.function_worker"
# Arrow's other pools take a gigabyte of the limit before they need it.
ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
NO_VERDICT = "function's process sent what is no verdict"

Reply = tuple[str | bool | None, str | None, str | None]  # level, evidence, why there is none


class ProcessLost(Exception):
    """The process is of no use any more; the text says why, as the reason of the row that it was at."""


class FunctionFault(Exception):
    """The function can't be had: its import failed, or there is no such thing."""


class FunctionProcess:
    """One process under way. It runs in a session of its own, so that what it started can be ended with it."""

    def __init__(self, settings: FunctionSettings, log_file: Path | None) -> None:
        """log_file: takes what functions print; None drops it."""
        self._settings = settings
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._is_ready = False
        self._found: dict[str, bool] = {}
        self._socket, theirs = socket.socketpair()
        with theirs, (log_file or Path(os.devnull)).open("ab") as log:
            self._process = start_python(
                WORKER, theirs.fileno(), settings.memory_limit_mb, log=log, environment=ENVIRONMENT
            )

    def find(self, function: str) -> bool:
        """Import a function, once; returns whether it is vectorised. Raises `FunctionFault` or `ProcessLost`."""
        if function not in self._found:
            if not self._is_ready:
                self._answer(START_S)
                self._is_ready = True
            self._send({"function": function, "allow": self._settings.allow}, b"")
            match self._answer(self._settings.time_limit_s):
                case {"is_vectorised": bool(is_vectorised)}:
                    self._found[function] = is_vectorised
                case {"fault": str(fault)}:
                    raise FunctionFault(fault)
                case _:
                    raise ProcessLost(NO_VERDICT)
        return self._found[function]

    def call(self, method: FunctionMethod, rows: pa.Table) -> Iterator[Reply | float]:
        """Call a function that was found. Yields a reply for each row as it comes, and the CPU seconds last.

        Raises `ProcessLost`: the row that follows the last reply is the one that it was at.
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        body = sink.getvalue()
        limit_s = self._settings.time_limit_s if self._found[method.function] else self._settings.row_time_limit_s
        self._send({"function": method.function, "settings": method.settings, "size": body.size}, body)
        _without_fault(self._answer(START_S))  # that it begins: the limit is the function's alone
        for _ in range(rows.num_rows):
            yield _reply(self._answer(limit_s))
        match self._answer(limit_s):
            case {"cpu_s": float(cpu_s)}:
                yield cpu_s
            case _:
                raise ProcessLost(NO_VERDICT)

    def is_alive(self) -> bool:
        """Whether it can be called: what ended it while nothing called it is no row's fault."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process and what it started."""
        end_process(self._process)
        self._socket.close()

    def _send(self, request: dict[str, Any], body: Any) -> None:
        self._socket.settimeout(START_S)
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            self._socket.sendall(body)
        except TimeoutError:
            raise ProcessLost(f"function's process took in nothing for {START_S:g} s") from None
        except OSError:
            _without_fault(self._answer(START_S))  # it may have said why; raises too where it said nothing
            raise ProcessLost(self._end_of_it()) from None

    def _answer(self, limit_s: float) -> Any:
        if not self._lines:
            self._receive(limit_s)
        try:
            return json.loads(self._lines.popleft())
        except (ValueError, RecursionError):
            raise ProcessLost(NO_VERDICT) from None

    def _receive(self, limit_s: float) -> None:
        """Wait for at least one line. Raises `ProcessLost`."""
        deadline = time.monotonic() + limit_s
        while not self._lines:
            try:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                chunk = self._socket.recv(1 << 16)
            except TimeoutError:
                raise ProcessLost(f"function took more than {limit_s:g} s") from None
            except OSError:
                chunk = b""
            if not chunk:
                raise ProcessLost(self._end_of_it())
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > LONGEST_LINE:
                raise ProcessLost(NO_VERDICT)
            self._lines.extend(whole)

    def _end_of_it(self) -> str:
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "function's process closed its connection"
        if code < 0:
            return f"function's process died (signal {-code})"
        return f"function's process ended (exit code {code})"


def _reply(answer: Any) -> Reply:
    match _without_fault(answer):
        case [str() | bool() | None as level, str() | None as evidence, str() | None as fault]:
            return level, evidence, fault
    raise ProcessLost(NO_VERDICT)


def _without_fault(answer: Any) -> Any:
    match answer:
        case {"fault": str(fault)}:
            raise ProcessLost(fault)
    return answer
