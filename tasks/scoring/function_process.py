"""Client of a process that calls functions of users: requests, replies and its end."""

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
START_S = 30.0  # limit for starting, and for receiving a request
WORKER = "gradebook.tasks.scoring.function_worker"
# Arrow's other pools reserve a gigabyte of the limit in advance.
ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
NO_VERDICT = "function's process sent what is no verdict"

Reply = tuple[str | bool | float | None, str | None, str | None]  # level or score, evidence, reason for no level


class ProcessLost(Exception):
    """The process is unusable; the text becomes the reason of the row it was working on."""


class FunctionFault(Exception):
    """The function cannot be imported or does not exist."""


class FunctionProcess:
    """One running process, in a session of its own, so that its child processes end with it."""

    def __init__(self, settings: FunctionSettings, log_file: Path | None) -> None:
        """log_file: receives the functions' output; None discards it."""
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
        """Import a function once; returns whether it is vectorised. Raises `FunctionFault` or `ProcessLost`."""
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
        """Call an imported function. Yields a reply for each row as it arrives, and finally the CPU seconds.

        Raises `ProcessLost`: the process was working on the row after the last reply.
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        body = sink.getvalue()
        limit_s = self._settings.time_limit_s if self._found[method.function] else self._settings.row_time_limit_s
        asked = {"function": method.function, "settings": method.settings, "takes": method.takes}
        self._send(asked | {"size": body.size}, body)
        _without_fault(self._answer(START_S))  # acknowledges the start: the limit applies to the function alone
        for _ in range(rows.num_rows):
            yield _reply(self._answer(limit_s))
        match self._answer(limit_s):
            case {"cpu_s": float(cpu_s)}:
                yield cpu_s
            case _:
                raise ProcessLost(NO_VERDICT)

    def is_alive(self) -> bool:
        """Whether the process can be called: an end between calls is no row's fault."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process and its child processes."""
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
            _without_fault(self._answer(START_S))  # raises its own fault, if it sent one
            raise ProcessLost(self._describe_end()) from None

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
                raise ProcessLost(self._describe_end())
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > LONGEST_LINE:
                raise ProcessLost(NO_VERDICT)
            self._lines.extend(whole)

    def _describe_end(self) -> str:
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "function's process closed its connection"
        if code < 0:
            return f"function's process died (signal {-code})"
        return f"function's process ended (exit code {code})"


def _reply(answer: Any) -> Reply:
    match _without_fault(answer):
        case [str() | bool() | float() | None as level, str() | None as evidence, str() | None as fault]:
            return level, evidence, fault
    raise ProcessLost(NO_VERDICT)


def _without_fault(answer: Any) -> Any:
    match answer:
        case {"fault": str(fault)}:
            raise ProcessLost(fault)
    return answer
