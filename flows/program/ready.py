"""The ready process of a person: it has imported what commands need, and runs each command in a fork of itself.

A command takes seconds to import gradebook, Prefect and their libraries; a fork of a process that has them takes
milliseconds. Such a process is left behind by the first command, runs nothing for a command that started in another
environment (see `likeness`), and ends when its code or Prefect's settings have changed, or nobody has used it for a
while.

    python -m gradebook.flows.program.ready STATE_FILE IDLE_S LIKENESS COMMAND...
"""

import fcntl
import gc
import io
import json
import logging
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO

import duckdb

import gradebook
from gradebook.flows.display.ends import run_to_end
from gradebook.flows.program.likeness import OF_THE_PROGRAM, Likeness, like_other
from gradebook.flows.program.protocol import AWAKE, ENDED, GO, LENGTH, MOST_DESCRIPTORS, STARTED, address_of
from gradebook.flows.server.port_keeper import is_own
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.schema import table_names
from gradebook.tasks.system.folder_settings import NAMES, prefect_home, profiles_file, refuse_folder_settings
from gradebook.tasks.system.kept_process import (
    READY,
    claim_state,
    find_process,
    idle_time_s,
    start_process,
    state_file,
    write_state,
)
from gradebook.tasks.system.lazy_imports import refuse_pandas, uncollected
from gradebook.tasks.system.logs import LOGGER
from gradebook.tasks.system.operator_settings import settings_path
from gradebook.tasks.system.processes import end_with_parent

MOST_REQUEST_BYTES = 2**24
REQUEST_S = 1.0  # to read a request
LOOK_MS = 500
UNUSED_S = 30.0  # after its last command, until it gives way to one that it is unlike
# Imported by some commands only when they need them.
LATE = (
    "gradebook.flows.evaluate_outputs",
    "gradebook.rubrics.checks.registry",
    "gradebook.tasks.judging.transport.http_client",
    "encodings.idna",
    "genai_prices.data",
    "prefect.flow_engine",
    "prefect.task_engine",
    "pyarrow.acero",
    "pyarrow.dataset",
)
DATA = ("sql", "pages", "rubrics", "examples")  # folders of the package with files that are no modules


@dataclass(slots=True)
class _Asked:
    """A request of a command. descriptors: its open files in this process; numbers: their numbers in its own."""

    connection: socket.socket
    like: Likeness
    arguments: list[str]
    began_at: float  # time.perf_counter() of the command, which all processes share
    cpu_s: float
    numbers: list[int]
    descriptors: list[int]

    def take_descriptors(self) -> None:
        """In a fork: give the open files the numbers that they have in the caller."""
        given = [*self.descriptors, self.connection.detach()]
        above = max(*self.numbers, *given) + 1  # where none of them is in the way
        moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, above) for each in given]
        for each in given:
            os.close(each)
        self.connection = socket.socket(fileno=moved.pop())
        for descriptor, number in zip(moved, self.numbers, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def leave_ready_process(like: Likeness, served: Iterable[str]) -> None:
    """Start a ready process that is like this command was, unless one runs already. Returns at once.

    served: the commands that it is to run, whose imports it has to know.
    """
    with suppress(OSError, ValueError, InputError):  # no such home, for example: commands take longer
        state = state_file(prefect_home(), READY, "all")
        prefect_home().mkdir(mode=0o700, parents=True, exist_ok=True)
        if idle_time_s() > 0 and find_process(state) is None:
            environment = {name.removesuffix("="): value for name, value in like.items() if name.endswith("=")}
            program = ["-m", "gradebook.flows.program.ready"]
            others = json.dumps({name: like[name] for name in OF_THE_PROGRAM})  # arguments are seen by all users
            process = start_process(state, program, others, *served, environment=environment)
            if process.stdout:
                process.stdout.close()


def main() -> None:
    """Import what commands need, then run them in forks until none was asked for during IDLE_S."""
    began_at = time.time()
    os.dup2(2, 1)  # nobody reads its output
    state_path, idle_s, other, served = Path(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]
    sys.argv[:], sys.path[:] = [other["argv[0]"]], other["path"].split(os.pathsep)
    like, state = like_other(other), claim_state(state_path)
    if like is None or state is None:
        return
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address_of(like))  # raises `OSError` if another process has it
    write_state(state, address_of(like)[1:], "", idle_s)
    _import_all(served)
    ready = _Ready(state, listening, like, idle_s, _Files(began_at))
    gc.freeze()
    asked = ready.serve()
    if asked is not None:
        run_to_end(partial(_run, asked))


def _import_all(served: Iterable[str]) -> None:
    """Import what commands import, in the same way."""
    refuse_pandas()
    from gradebook.flows.cli import load_command
    from gradebook.flows.server.start import choose_prefect_logs, import_flows
    from gradebook.tasks.stages.suite_process import import_late

    refuse_folder_settings(os.environ)
    choose_prefect_logs(is_verbose=False)
    import_flows()
    logging.getLogger(LOGGER).setLevel(logging.CRITICAL)  # until `begin_logging`: Prefect prints errors of all loggers
    with uncollected():
        for name in served:
            load_command(name)
        for name in LATE:
            import_module(name)
        import_late()
    table_names()  # known from now on: a database of its own tells
    import_module("gradebook.tasks.marts.models").model_order()  # and these: they are read from 60 files
    len(import_module("pytz").all_timezones_set)  # found in 600 files when a time is first read
    duckdb.default_connection().close()  # the import opened it, with threads that no fork has and each would wait for


class _Files:
    """The files that this process has read, and files of settings: none may change."""

    def __init__(self, began_at: float) -> None:
        code = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        settings = (profiles_file(), settings_path(os.environ), *map(Path, NAMES))
        package = Path(gradebook.__path__[0])
        found = [path for folder in DATA for path in (package / folder).rglob("*") if path.is_file()]
        data = [path for path in found if path.suffix not in (".py", ".pyc")]  # compiled by the first import
        self._stamps = {str(path): _stamp(path) for path in {*filter(None, (*code, *settings)), *data}}
        self._is_old = any(stamp and stamp[0] > began_at * 1e9 for stamp in self._stamps.values())

    def are_unchanged(self) -> bool:
        """Whether all are as they were when they were read."""
        return not self._is_old and all(_stamp(path) == stamp for path, stamp in self._stamps.items())


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of files, twice as fast without a Path
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(frozen=True, slots=True)
class _Command:
    """A command that runs in a fork: the connection of its caller, and the fork's process id."""

    connection: socket.socket
    process: int


class _Ready:
    """The loop of the ready process."""

    def __init__(self, state: IO[str], listening: socket.socket, like: Likeness, idle_s: float, files: _Files) -> None:
        self._state, self._listening = state, listening
        self._like, self._idle_s, self._files = like, idle_s, files
        self._used_at = time.monotonic()
        self._has_served = False
        self._is_open = True
        self._commands: dict[int, _Command] = {}  # by the descriptor of the connection
        self._poll = select.poll()
        self._signals, self._signalled = socket.socketpair()  # readable after a signal: Python may lack os.pidfd_open
        self._usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD)}

    def serve(self) -> _Asked | None:
        """Run commands until nobody has asked for a while; returns in a fork what it has to run, else None."""
        self._signalled.setblocking(False)
        signal.set_wakeup_fd(self._signalled.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_is_open", False))  # commands at work go on
        self._listening.listen()
        self._poll.register(self._listening, select.POLLIN)
        self._poll.register(self._signals, select.POLLIN)
        while self._is_open and (self._commands or time.monotonic() - self._used_at < self._idle_s):
            if asked := self._look():
                return asked
        self._poll.unregister(self._listening)
        self._listening.close()
        if self._commands:
            self._state.close()  # the next ready process may start
        while self._commands:
            self._look()
        return None

    def _look(self) -> _Asked | None:
        """Handle what happens within `LOOK_MS`; returns in a fork what it has to run, else None."""
        for descriptor, _ in self._poll.poll(LOOK_MS):
            if descriptor in self._commands:  # the caller is gone: so is its command
                self._poll.unregister(descriptor)
                os.kill(self._commands[descriptor].process, signal.SIGKILL)
            elif descriptor == self._signals.fileno():
                self._signals.recv(4096)
                self._end_commands()
            elif descriptor == self._listening.fileno():
                with suppress(OSError):  # out of open files or processes: the caller runs its command itself
                    connection, _ = self._listening.accept()
                    if asked := self._answer(connection):
                        return asked
        return None

    def _answer(self, connection: socket.socket) -> _Asked | None:
        """Fork for a caller that is like this process; returns in the fork what to run, else None."""
        asked, parent, process = _read(connection), os.getpid(), None
        if asked is not None:
            with suppress(OSError):  # no more processes
                process = os.fork() if self._serves(asked.like) else None
            if process == 0:
                try:
                    self._become_command(asked, parent)
                except BaseException:  # noqa: BLE001 - a fork must not go on as a ready process
                    os._exit(1)
                return asked
            _close(asked)
        if process is None:
            connection.close()  # the caller runs its command itself
        else:
            self._commands[connection.fileno()] = _Command(connection, process)
            self._poll.register(connection, select.POLLRDHUP)
        return None

    def _serves(self, like: Likeness) -> bool:
        """Whether this process is as a command would be that starts anew; else it ends, or soon will."""
        is_alike = like == self._like
        if is_alike and self._files.are_unchanged():
            return True
        self._is_open = not is_alike and self._has_served and time.monotonic() - self._used_at < UNUSED_S
        return False

    def _become_command(self, asked: _Asked, parent: int) -> None:
        """In the fork: keep nothing of the ready process, take the caller's open files, and say so."""
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number, handler in self._usual.items():
            signal.signal(number, handler)
        if not end_with_parent(parent):
            raise ProcessLookupError
        for each in (self._listening, self._state, self._signals, self._signalled):
            each.close()
        for command in self._commands.values():
            command.connection.close()
        asked.take_descriptors()
        asked.connection.settimeout(None)
        asked.connection.sendall(f"{STARTED} {os.getpid()}\n".encode())

    def _end_commands(self) -> None:
        """Tell the callers of the commands that have ended how they did."""
        for descriptor, command in [*self._commands.items()]:
            process, status = os.waitpid(command.process, os.WNOHANG)
            if process:
                del self._commands[descriptor]
                with suppress(KeyError):  # the caller is gone
                    self._poll.unregister(descriptor)
                with suppress(OSError):
                    command.connection.sendall(f"{ENDED} {os.waitstatus_to_exitcode(status)}\n".encode())
                command.connection.close()
                self._used_at, self._has_served = time.monotonic(), True


def _read(connection: socket.socket) -> _Asked | None:
    """Request of a caller; None if it is not of this user, or sends something else."""
    connection.settimeout(REQUEST_S)
    descriptors: list[int] = []
    try:
        if not is_own(connection):
            return None
        connection.sendall(AWAKE)
        head, descriptors, _, _ = socket.recv_fds(connection, LENGTH.size, MOST_DESCRIPTORS)
        (length,) = LENGTH.unpack(head)
        if length <= MOST_REQUEST_BYTES:
            with connection.makefile("rb") as content:
                asked = _Asked(connection, **json.loads(content.read(length)), descriptors=descriptors)
            if len(asked.numbers) == len(descriptors):
                return asked
    except (OSError, ValueError, TypeError, struct.error):
        pass
    for each in descriptors:
        os.close(each)
    return None


def _close(asked: _Asked) -> None:
    for each in asked.descriptors:
        os.close(each)


def _run(asked: _Asked) -> None:
    """In a fork: run a command with its caller's arguments and start, once the caller says go."""
    from gradebook.flows import cli
    from gradebook.flows.display.terminal import look_again

    if asked.connection.recv(len(GO)) != GO:
        os._exit(0)  # the caller is gone, or has run the command itself
    asked.connection.close()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    look_again()
    sys.argv[1:] = asked.arguments
    gradebook.LOADED_AT, gradebook.CALLER_CPU_S, gradebook.IS_READY = asked.began_at, asked.cpu_s, True
    cli.main()


if __name__ == "__main__":
    main()
