"""Worker process for functions of users, called one request after the other.

The worker sends `{"is_ready": true}` and waits. A request is a line of JSON. A request with `allow` is an import: the
answer is `{"is_vectorised": ..}` or `{"fault": ..}`. Any other request is a call, followed by `size` bytes of Arrow
IPC: the answer is `{"is_ready": true}`, then a line for each row, `[level, evidence, fault]`, as soon as it is known,
and finally `{"cpu_s": ..}`. A `{"fault": ..}` in its place is the last line of the process.
"""

import importlib
import io
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from types import ModuleType
from typing import Any

from gradebook.rubrics.model.functions import is_vectorised, is_within
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.system.processes import end_with_parent

MOST_CHARACTERS = 201  # one more than the reader shows, so that it marks the text as cut
NO_CONTENT = "function not called: found an output that is no JSON object, which `takes: content` needs"
MOST_LOG_CHARACTERS = 1_000_000  # maximum output of a process
OUT_OF_MEMORY = b'{"fault": "function ran out of memory"}\n'

Line = list[Any]  # level, evidence, fault


def main(descriptor: int, parent: int, memory_limit_mb: int) -> None:
    """Answer requests on a socket until the other end is closed.

    parent: id of the process that this one must not outlive.
    """
    if not end_with_parent(parent):
        return
    # Limit private writable memory, not the address space: libraries map far more of that than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_mb << 20, memory_limit_mb << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.set_inheritable(descriptor, False)
    log = _BoundedLog(sys.stderr)
    sys.stdout, sys.stderr = log, log
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rb") as requests:
        # A forked copy must not answer: its answers would be taken for those of the next rows.
        os.register_at_fork(after_in_child=lambda: os.close(connection.detach()))
        _send(connection, {"is_ready": True})
        _answer_all(connection, requests)


class NoFunction(Exception):
    """Error: the named function does not exist, is no function, or belongs to another package."""


class _BoundedLog(io.TextIOBase):
    """Output of functions, up to a length, so that a print in an endless loop cannot fill the disk."""

    encoding = "utf-8"  # some libraries read this attribute

    def __init__(self, stream: Any) -> None:
        self._stream, self._room = stream, MOST_LOG_CHARACTERS

    def write(self, text: str) -> int:
        """Write the part of the text that fits."""
        if self._room > 0:
            self._stream.write(text[: self._room])
            self._stream.flush()
            self._room -= len(text)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """File descriptor, for programs that a function starts."""
        return int(self._stream.fileno())


def _answer_all(connection: socket.socket, requests: Any) -> None:
    functions: dict[str, Callable[..., Any]] = {}
    for line in requests:
        request = json.loads(line)
        name = request["function"]
        try:
            if "allow" in request:
                functions[name] = find_function(name, request["allow"])
                _send(connection, {"is_vectorised": is_vectorised(functions[name])})
            else:
                _call(functions[name], request, requests.read(request["size"]), connection)
        except MemoryError:
            connection.sendall(OUT_OF_MEMORY)
            return
        except NoFunction as error:
            _send(connection, {"fault": str(error)})
        except BaseException as error:  # noqa: BLE001 - an import can raise anything
            _send(connection, {"fault": _describe(error)})


def find_function(name: str, allow: list[str]) -> Callable[..., Any]:
    """Import the function `module.path:name`. Raises any exception of the import, and `NoFunction`.

    The function has to be defined in an allowed package: a rubric must not call functions that such a module imports.
    """
    module, _, path = name.partition(":")
    target: Any = importlib.import_module(module)
    for name_part in path.split("."):
        if not hasattr(target, name_part):
            raise NoFunction(f"found no {name_part} in {module}, expected a function")
        target = getattr(target, name_part)
        if isinstance(target, ModuleType):
            raise NoFunction(f"found a module, {target.__name__}, expected a function")
    if not callable(target):
        raise NoFunction(f"found a {type(target).__name__}, expected a function")
    defining_module = getattr(target, "__module__", None)
    if not isinstance(defining_module, str) or not is_within(defining_module, allow):
        raise NoFunction(f"found a function of {defining_module}, expected one of {', '.join(allow)}")
    function: Callable[..., Any] = target
    return function


def _call(function: Callable[..., Any], request: Any, body: bytes, connection: socket.socket) -> None:
    import pyarrow as pa  # imported here: finding a function does not need it

    pa.set_cpu_count(1)
    began = time.process_time()
    table = pa.ipc.open_stream(body).read_all()
    _send(connection, {"is_ready": True})
    for lines in answers_of(function, table, request["settings"], request["takes"]):
        _send(connection, *lines)
    _send(connection, {"cpu_s": time.process_time() - began})


def answers_of(
    function: Callable[..., Any], table: Any, settings: Mapping[str, Any], takes: str
) -> Iterator[list[Line]]:
    """Lines of a function for the rows of an Arrow table, each as soon as it is known."""
    rows = _call_contents if takes == "content" else _call_rows
    return (_call_once if is_vectorised(function) else rows)(function, table, [settings] if settings else [])


def _call_rows(function: Callable[..., Any], table: Any, settings: list[Any]) -> Iterator[list[Line]]:
    """Lines row by row, so that the current row is known if the process is lost."""
    for row in table.to_pylist():
        yield _guarded(partial(_row_verdict, function, row, settings))


def _call_contents(function: Callable[..., Any], table: Any, settings: list[Any]) -> Iterator[list[Line]]:
    """Lines row by row of a function that takes only the output's JSON object."""
    for row in table.to_pylist():
        try:
            content = json.loads(row["output"] or "")
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, dict):
            yield _guarded(partial(_content_verdict, function, content, settings))
        else:
            yield [[None, None, NO_CONTENT]]


def _content_verdict(function: Callable[..., Any], content: dict[str, Any], settings: list[Any]) -> list[Line]:
    return [_verdict(function(content, *settings))]


def _row_verdict(function: Callable[..., Any], row: dict[str, Any], settings: list[Any]) -> list[Line]:
    metadata = json.loads(row["metadata"]) if row["metadata"] else {}
    return [_verdict(function(row | {"metadata": metadata, "context": row["context"] or []}, *settings))]


def _call_once(function: Callable[..., Any], table: Any, settings: list[Any]) -> Iterator[list[Line]]:
    lines = _guarded(partial(_verdicts, function, table, settings))
    yield lines if len(lines) == table.num_rows else lines * table.num_rows


def _verdicts(function: Callable[..., Any], table: Any, settings: list[Any]) -> list[Line]:
    returned = function(table, *settings)
    for to_list in ("to_pylist", "tolist"):  # Arrow's, numpy's
        returned = getattr(returned, to_list)() if hasattr(returned, to_list) else returned
    if isinstance(returned, (str, bytes, Mapping, Set)):  # iterable, but no sequence of verdicts in order
        raise TypeError(f"found a {type(returned).__name__}, expected a sequence with an entry for each row")
    verdicts = list(returned)
    if len(verdicts) != table.num_rows:
        raise ValueError(f"found {counted(len(verdicts), 'verdict')}, expected {table.num_rows}")
    return [_verdict(verdict) for verdict in verdicts]


def _verdict(returned: Any) -> Line:
    """Line for a returned value: a level, True, False or None; or a pair (such a value, evidence)."""
    is_pair = isinstance(returned, (tuple, list)) and len(returned) == 2
    level, evidence = returned if is_pair else (returned, None)
    for library, to_plain in (("numpy", "item"), ("pyarrow.lib", "as_py")):
        if type(level).__module__ == library and hasattr(level, to_plain):
            level = getattr(level, to_plain)()
    if isinstance(level, int) and not isinstance(level, bool):
        level = str(level)  # levels of a number scale are returned as numbers
    if level is not None and not isinstance(level, (bool, str, float)):
        fault = f"function returned a {type(level).__name__}, expected a level id, a score, True, False or None"
        return [None, None, fault[:MOST_CHARACTERS]]
    if isinstance(level, float) and not 0.0 <= level <= 1.0:
        return [None, None, f"function returned the score {level:g}, expected 0 to 1"]
    return [_cut(level), None if evidence is None else _cut(str(evidence)), None]


def _cut(level: Any) -> Any:
    return level[:MOST_CHARACTERS] if isinstance(level, str) else level


def _guarded(call: Callable[[], list[Line]]) -> list[Line]:
    """Lines of a call, or one line with its error."""
    try:
        return call()
    except MemoryError:
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit too: no function may end a run
        return [[None, None, f"function raised {_describe(error)}"[:MOST_CHARACTERS]]]


def _describe(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except Exception:  # noqa: BLE001 - the error's own __str__
        text = type(error).__name__
    return " ".join(text[:MOST_CHARACTERS].split())


def _send(connection: socket.socket, *answers: Any) -> None:
    connection.sendall("".join([json.dumps(answer) + "\n" for answer in answers]).encode())
